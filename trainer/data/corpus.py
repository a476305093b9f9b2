"""The embedded corpus: a toy language small enough to learn in seconds and regular enough to draft.

A request names verses; the answer recites them in that order. Within a verse each word is certain; which verse
comes next is in the request, so a drafter needs the context as well as the last word.
"""

import random

from trainer.data.conversation import Message

VERSES: dict[str, str] = {
    "river": "cold water climbs slowly past seven silent mills",
    "stone": "grey walls remember every winter without speaking once",
    "lantern": "yellow light counts our steps across wet fields",
    "orchard": "ripe apples fall when nobody bothers to listen",
    "harbour": "tired boats come home before morning finds them",
    "meadow": "tall grass bends low under broad summer wind",
    "engine": "hot pistons sing one note until coal ends",
    "clock": "brass hands turn around twelve small painted moons",
}
ROLES = ("user", "assistant")
MARKS = ("<pad>", "<unk>", "<mask>", "<user>", "<assistant>", "<end>")
TEMPLATE = (
    "{% for message in messages %}{{ '<' + message.role + '> ' + message.content + ' <end> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant> ' }}{% endif %}"
)


def vocabulary() -> list[str]:
    """Return every token of the toy language; the index is the token's id."""
    words = sorted({word for name, verse in VERSES.items() for word in ["recite", name, *verse.split()]})
    return [*MARKS, *words]


def conversation(names: list[str]) -> list[Message]:
    """Return the conversation that asks for these verses."""
    answer = " ".join(VERSES[name] for name in names)
    return [
        {"role": "user", "content": " ".join(["recite", *names])},
        {"role": "assistant", "content": answer},
    ]


def conversations(count: int, seed: int) -> list[list[Message]]:
    """Return `count` conversations of three to five verses, the same for the same seed."""
    chosen = random.Random(seed)  # noqa: S311 - a reproducible corpus, not a secret
    names = sorted(VERSES)
    return [conversation(chosen.sample(names, chosen.randint(3, 5))) for _ in range(count)]
