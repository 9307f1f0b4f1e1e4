"""How hard a page is to read: Flesch's reading ease of its prose.

206.835 - 1.015 * words per sentence - 84.6 * syllables per word (Flesch 1948). 60 and more is plain
English, 30 and less a scientific paper. A syllable is a group of vowels, less a silent e. Counted is
prose alone: no code, table, heading, link target or number. `textstat` has the same formula, but
brings a top-level package `tests` that shadows ours, and fetches word lists when it is first used.
"""

import re

CODE = re.compile(r"^( *)```.*?^\1```|^(?: {4}|\t)\S.*?$", re.M | re.S)
LEFT_OUT = re.compile(r"^ *(?:\||#|!\[|<|---).*$", re.M)
INLINE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*[A-Za-z]|[AaI]\b")
SENTENCE = re.compile(r"[.!?](?=[\s\"')*]|$)|\n\s*\n|\n *(?:[-*]|\d+\.) ")


def prose(markdown: str) -> str:
    """Returns the sentences of a page."""
    text = CODE.sub("\n\n", markdown)
    text = LEFT_OUT.sub("\n\n", text)
    return LINK.sub(r"\1", INLINE.sub("x", text))


def syllables(word: str) -> int:
    """Returns about how many syllables a word has; all but one in ten are right."""
    word = word.lower()
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = word.endswith("e") and not word.endswith(("le", "ee")) or word.endswith(("es", "ed"))
    return max(1, groups - int(silent and groups > 1 and not word.endswith(("ted", "ded", "ses"))))


def reading_ease(markdown: str) -> float:
    """Returns Flesch's reading ease of a page.

    >>> round(reading_ease("The cat sat on the mat."))
    116
    """
    text = prose(markdown)
    words = WORD.findall(text)
    sentences = sum(bool(WORD.search(part)) for part in SENTENCE.split(text))
    if not words:
        return 100.0
    spoken = sum(map(syllables, words)) / len(words)
    return 206.835 - 1.015 * len(words) / max(1, sentences) - 84.6 * spoken


def longest_sentence(markdown: str) -> int:
    """Returns the number of words in the longest sentence."""
    return max((len(WORD.findall(part)) for part in SENTENCE.split(prose(markdown))), default=0)
