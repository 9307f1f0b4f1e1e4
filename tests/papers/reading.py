"""How hard a page is to read: Flesch's reading ease of its prose.

206.835 - 1.015 * words per sentence - 84.6 * syllables per word (Flesch 1948). 60 and more is plain
English, 30 and less a scientific paper. A syllable is a group of vowels, less a silent e. Counted
is prose alone: no code, table, heading, link target or number. `textstat` has the same formula, but
brings a top-level package `tests`, which may shadow ours, and wants nltk's word lists from outside.
"""

import re

CODE = re.compile(r"^( *)```.*?^\1```|^(?: {4}|\t)\S.*?$", re.M | re.S)
LEFT_OUT = re.compile(r"^ *(?:\||#|!\[|<|---).*$", re.M)
INLINE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*[A-Za-z]|[AaI]\b")
NUMBER = re.compile(r"(?<![\w.])[-+±]?\d[\d,]*(?:\.\d+)?\b")
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
    silent = word.endswith(("e", "es", "ed"))
    spoken = re.search("(?:le|ee|ses|[dt]ed)$", word)
    return max(1, groups - int(silent and spoken is None))


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


def numbers_in_prose(markdown: str) -> float:
    """Returns how many numbers stand in the prose of a page, for each hundred of its words."""
    text = prose(markdown)
    return 100 * len(NUMBER.findall(text)) / max(1, len(WORD.findall(text)))
