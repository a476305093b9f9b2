"""The style sheet of pages and pictures: light and dark by the reader's setting, nothing fetched.

Contrast of text is at least 4.5:1 in both (WCAG 2.2, 1.4.3); no meaning is carried by colour alone.
"""

COLORS = """
:root, svg.picture {
  color-scheme: light dark;
  --paper: #ffffff; --raised: #f4f5f7; --ink: #16181d; --dim: #565c66; --line: #c6cad1; --link: #0b57b7;
  --error: #b3261e; --error-paper: #fdecea; --warning: #7a4f01; --warning-paper: #fdf3d8;
  --note: #0b57b7; --note-paper: #e8f0fc; --ok: #1b6b32; --ok-paper: #e6f4ea; --unknown: #7b2d8e;
  --unknown-paper: #f7ebfa;
}
@media (prefers-color-scheme: dark) {
  :root, svg.picture {
    --paper: #14161a; --raised: #1e2127; --ink: #eceef2; --dim: #a9b0bb; --line: #434955; --link: #8ab8ff;
    --error: #ff9e94; --error-paper: #3a1a18; --warning: #f5c862; --warning-paper: #33280f;
    --note: #8ab8ff; --note-paper: #172338; --ok: #7ddb95; --ok-paper: #14291b; --unknown: #e2a5f2;
    --unknown-paper: #2d1a33;
  }
}
"""

PICTURE = """
svg.picture text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: var(--ink); }
svg.picture text.dim { fill: var(--dim); }
svg.picture text.strong { font-weight: bold; }
svg.picture .edge { fill: none; stroke: var(--line); stroke-width: 1.5; }
svg.picture .edge.error { stroke: var(--error); stroke-width: 2; }
svg.picture .box { fill: var(--raised); stroke: var(--line); stroke-width: 1; }
svg.picture .box.error { fill: var(--error-paper); stroke: var(--error); stroke-width: 2; }
svg.picture .box.warning { fill: var(--warning-paper); stroke: var(--warning); stroke-width: 2; }
svg.picture .box.ok { fill: var(--ok-paper); stroke: var(--ok); }
svg.picture .box.note { fill: var(--note-paper); stroke: var(--note); }
svg.picture .box.unknown { fill: var(--unknown-paper); stroke: var(--unknown); }
svg.picture .box.foreign { fill: var(--unknown-paper); stroke: var(--unknown); stroke-dasharray: 4 2; }
svg.picture .healthy text { fill: var(--dim); }
svg.picture a:focus .box, svg.picture a:hover .box { stroke: var(--link); stroke-width: 3; }
svg.picture .owner-0 { fill: #2f6fde; } svg.picture .owner-1 { fill: #d9822b; } svg.picture .owner-2 { fill: #2e9e5b; }
svg.picture .owner-3 { fill: #9a4fd1; } svg.picture .owner-4 { fill: #c2407e; } svg.picture .owner-5 { fill: #1899a6; }
svg.picture .owner-6 { fill: #a0882a; } svg.picture .owner-7 { fill: #6b7688; }
svg.picture .owner-8 { fill: #8c564b; } svg.picture .owner-9 { fill: #e0559a; }
svg.picture .owner-10 { fill: #5b8c00; } svg.picture .owner-11 { fill: #b5452c; }
svg.picture .owner-12 { fill: #6a63d8; } svg.picture .owner-13 { fill: #7d8f3a; }
svg.picture .owner-14 { fill: #b07cc6; } svg.picture .owner-15 { fill: #3d8f86; }
svg.picture .nobody { fill: var(--line); }
"""

PAGE = """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 76rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 1.6rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
p { margin: .3rem 0; } ul { margin: .3rem 0; padding-left: 1.3rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -999rem; } .skip:focus { position: static; display: inline-block; padding: .4rem; }
.context { color: var(--dim); margin: 0; } .context span { margin-right: 1.4rem; overflow-wrap: anywhere; }
article { border: 1px solid var(--line); border-left: 6px solid var(--line); border-radius: 4px; padding: .7rem 1rem;
  margin: .7rem 0; background: var(--raised); }
article h2 { margin: 0 0 .3rem; overflow-wrap: anywhere; }
article.error { border-left-color: var(--error); } article.warning { border-left-color: var(--warning); }
article.note { border-left-color: var(--note); }
.badge { font-weight: 600; } .error .badge, td.error { color: var(--error); }
.warning .badge, td.warning { color: var(--warning); } .note .badge, td.note { color: var(--note); }
td.ok { color: var(--ok); } td.unknown { color: var(--unknown); } td.not-applicable { color: var(--dim); }
.about { margin: .1rem 0 .4rem; } .about b { font-weight: 600; }
pre, code { font: 13px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: .5rem .7rem;
  margin: .4rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre.command { user-select: all; } pre.command span { display: inline-block; max-width: 100%; }
.evidence { color: var(--ink); } .evidence li { overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--dim); padding-bottom: .3rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th[scope="row"] { overflow-wrap: break-word; }
thead th { white-space: nowrap; }
td.state { white-space: nowrap; }
summary { cursor: pointer; padding: .2rem 0; }
figure svg.picture { display: block; width: 100%; height: auto; min-width: 50rem; }
figure { margin: .5rem 0; } figcaption { color: var(--dim); }
.scroll th, .scroll td { overflow-wrap: break-word; min-width: 7rem; }
.scroll.wide table { width: max-content; min-width: 100%; }
.scroll.wide th, .scroll.wide td { max-width: 18rem; white-space: normal; }
.scroll tr > :first-child { position: sticky; left: 0; background: var(--paper); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 4px; background: var(--paper); }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; color: var(--dim); }
.legend svg { width: 14px; height: 14px; vertical-align: -2px; margin-right: .35rem; }
tr:target { background: var(--note-paper); }
footer { color: var(--dim); padding-top: 1.5rem; padding-bottom: 2rem; }
@media print { .skip { display: none; } details > * { display: block; } }
"""
