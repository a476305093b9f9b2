"""Which folders of a RECORD's rows lead out of an environment through a symlink. Nothing is opened to tell."""

import os
import stat

from envdoctor.model.frozen import field, mutable

_MAXIMUM_PATH = 4096


@mutable
class Links:
    """Which folders lead out of an environment through a symlink. Nothing is opened to tell."""

    root: str
    """With a final slash."""
    site: str
    known: dict[str, bool] = field(default_factory=dict)
    """Folder -> whether it, or one above it, is such a link."""
    missing: set[str] = field(default_factory=set)
    """Folders that are not there, in one that is."""
    links: dict[str, str] = field(default_factory=dict)
    """Folder that leads out -> the link that does it."""
    straight: dict[int, bool] = field(default_factory=dict)
    """How often `..` -> whether it leads from the site folder to where its text says."""

    def settled(self, written: str) -> str:
        """Return the absolute, normalized path of a row; empty when it is absolute, climbs out or names nothing.

        `..` is taken at the beginning only, where launchers need it: behind a folder that is a link it leads elsewhere
        than the text says.
        """
        if not written or written.startswith("/") or "\0" in written or len(written) > _MAXIMUM_PATH:
            return ""
        parts = [part for part in written.split("/") if part not in ("", ".")]
        ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
        if ".." in parts[ups:] or (ups and not self._climbs_straight(ups)):
            return ""
        path = os.path.normpath(f"{self.site}/{written}")
        return path if path.startswith(self.root) else ""

    def _climbs_straight(self, ups: int) -> bool:
        if ups not in self.straight:
            climbed = f"{self.site}/{'../' * ups}"
            self.straight[ups] = os.path.realpath(climbed) == os.path.realpath(os.path.normpath(climbed))
        return self.straight[ups]

    def lead_out(self, folder: str) -> bool:
        """Tell whether `folder`, absolute and normalized, is behind a link out of root and site folder."""
        if len(folder) > _MAXIMUM_PATH:
            return False  # no such folder can exist, and its parts are not worth their memory
        above: list[str] = []
        at = folder
        while at not in self.known and at not in self.missing and len(at) >= len(self.root):
            above.append(at)
            at = at.rpartition("/")[0]
        if at in self.missing:
            return False
        leads = self.known.get(at, False)
        for below in reversed(above):
            if leads:
                break
            try:
                leads = stat.S_ISLNK(os.lstat(below).st_mode) and self._out(below)
            except (OSError, ValueError):
                # What does not exist leads nowhere; nor does what would be below it, however deep that is.
                self.missing.add(below)
                return False
            self.known[below] = leads
            at = below
        if leads:
            self.known[folder] = leads
            self.links[folder] = self.links.setdefault(at, at)
        return leads

    def _out(self, link: str) -> bool:
        # A site folder that is itself a link out, or is behind one (`lib` is), is where its distributions live; what it
        # holds is inside. A link to nowhere leads to nobody's files: what should be behind it is missing.
        real, site = os.path.realpath(link) + os.sep, os.path.realpath(self.site) + os.sep
        inside = real.startswith((os.path.realpath(self.root) + os.sep, site)) or site.startswith(real)
        return os.path.exists(real) and not inside  # noqa: PTH110 - a string path
