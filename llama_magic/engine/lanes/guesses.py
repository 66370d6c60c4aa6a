"""What may follow in a text, guessed from what stood before in it, as far as guessing has paid."""

from __future__ import annotations

import math
from collections.abc import Sequence

# How many tokens the end of a text must have in common with an earlier place, once guesses have paid and
# before. Prose repeats three tokens everywhere; of six it repeats what it will go on repeating.
AGAIN, FIRST = 3, 6
# What a row more in a batch costs, in tokens decoded alone: SmolLM2 Q4_1 0.6, Gemma 3 Q4_K_M 0.5 on one
# thread; much less where weights do not fit the processor's cache. Of the first two rows each costs 0.9.
ROW, LEAST = 0.65, 3
# What all guesses of an answer may lose: so many tokens, and this share of those written.
LOSS, SHARE = 2.0, 0.01
FAR, FAR_LOSS = 12, 4.6  # where so many tokens are alike it is a copy, and may lose more
ROWS = 4  # llama.cpp computes rows by fours: five cost what eight cost, but for a row
LATELY = 40.0  # tokens, from which on older ones count half
GAIN = 10.0  # the most of what was won that a later loss may use up
# What guesses of a draft model may lose in an answer: so many tokens, and this share of those written.
MODEL_LOSS, MODEL_SHARE = 6.0, 0.02
SHORT, LONG, MORE = 3, 15, 4  # guesses at first, at most, and how many more where all came true


class Drafter:
    """Guess the next tokens of one sample, as long as that pays.

    It keeps an account, in tokens decoded alone: what guesses saved, less what rows cost that were guessed
    wrongly. What might bring it below `LOSS` is not tried. So prose costs nothing, and a copy is
    found after a few tokens, then guessed in ever longer stretches; a word that was changed once is guessed
    as it was changed.
    """

    def __init__(self) -> None:
        # By size: the end of a beginning -> how long that is. Of a long prompt all are found in C.
        self._places: dict[int, dict[tuple[int, ...], int]] = {FIRST: {}, AGAIN: {}}
        self._next = {FIRST: FIRST, AGAIN: AGAIN}  # by size: the beginning that is not in it yet
        self._known = 0  # tokens at the last guess
        self._source = 0  # the place that the text last went on from, as far as it has come; 0: none
        self._misses = 0  # tokens since, that were not as they are there
        self._instead: dict[int, int] = {}  # by a token of the source: what came in its place the last time
        self._balance = 0.0
        self._came, self._failed = 0.0, 0.0  # tokens of guesses lately, and guesses that went wrong
        self.left: list[int] = []  # guesses that were not drawn against yet

    def guess(self, tokens: Sequence[int], written: int, most: int) -> list[int]:
        """Return what may follow `tokens`, `written` of which are the answer's; `most` at most."""
        end = len(tokens)
        self._source += (end - self._known) * (self._source > 0)
        self._compare(tokens, end)
        self._known = end
        place, alike = self._place(tokens, end)
        loss = (FAR_LOSS if alike >= FAR else LOSS) + SHARE * written
        most = min(most, int((self._balance + loss) / ROW))
        if not place:
            return []
        self._source = place
        # As far as a row is more likely to come true than it costs. A longer match is a better one, too.
        came, failed = self._came + 4.0, self._failed + 0.5  # a mild hope at first, and never certain
        likely = math.log(ROW) / math.log(came / (came + failed))
        length = min(most, 2 * alike, max(LEAST, int(likely)))
        if length < LEAST:
            return []
        length = ROWS * min((length + ROWS - 1) // ROWS, (most + 1) // ROWS) - 1
        # A place near the end is the last round of a repetition, which goes on into the guesses.
        found = (tokens[place + i % (end - place)] for i in range(length))
        return [self._instead.get(token, token) for token in found]

    def _place(self, tokens: Sequence[int], end: int) -> tuple[int, int]:
        """Return an earlier place that goes on from the same tokens, and how many; (0, 0) for none."""
        paid = self._balance > 0
        if paid and 0 < self._source < end and self._misses < AGAIN:
            self._misses += 1
            if alike := self._alike(tokens, self._source, end):
                return self._source, alike  # behind a word that was changed the text goes on as before
        for size in (FIRST, AGAIN) if paid else (FIRST,):
            place = self._learned(size, tokens, end).get(tuple(tokens[end - size : end]))
            if place is not None:
                return place, self._alike(tokens, place, end)
        return 0, 0

    def _alike(self, tokens: Sequence[int], place: int, end: int) -> int:
        """Return how many tokens before `place` are those before `end`, as far as that matters."""
        most = min(place, 4 * FIRST)
        pairs = ((tokens[place - 1 - i], tokens[end - 1 - i]) for i in range(most))
        differ = (i for i, (was, now) in enumerate(pairs) if now not in (was, self._instead.get(was)))
        return next(differ, most)

    def _compare(self, tokens: Sequence[int], end: int) -> None:
        """Note what came in place of a token of the source, where the text before and behind is alike."""
        place = self._source
        if not 3 <= place < end or (tokens[place - 1], tokens[place - 3]) != (
            tokens[end - 1],
            tokens[end - 3],
        ):
            return
        self._instead[tokens[place - 2]] = tokens[end - 2]

    def _learned(self, size: int, tokens: Sequence[int], end: int) -> dict[tuple[int, ...], int]:
        """Return where the text went on from so many tokens the last time, by these."""
        places, first = self._places[size], self._next[size]
        if first + 1 == end:  # a token came
            places[tuple(tokens[first - size : first])] = first
        elif first < end:
            shifted = [tokens[first - size + at : end - size + at] for at in range(size)]
            places.update(zip(zip(*shifted, strict=True), range(first, end), strict=True))
        self._next[size] = max(first, end)
        return places

    def hear(self, token: int) -> tuple[bool, tuple[int, ...]]:
        """Take a token that came; say whether it was guessed, and which guesses end with it."""
        if self.left and self.left[0] == token:
            del self.left[0]
            return True, ()
        return False, self.strike()

    def strike(self) -> tuple[int, ...]:
        """Give up what is left of the guesses; returns it."""
        struck, self.left = tuple(self.left), []
        return struck

    def settle(self, guessed: int, kept: int) -> None:
        """Note that `kept` of so many guesses came true."""
        self._balance = min(GAIN, self._balance + kept - ROW * guessed)
        self._misses = 0 if kept else AGAIN
        share = 0.5 if self._came > LATELY else 1.0
        self._came = share * self._came + kept
        self._failed = share * self._failed + (kept < guessed)


class Trust:
    """How far the guesses of a draft model have paid in one answer: an account like `Drafter`'s.

    A `price` is what a token of that model costs, in tokens of the larger one.
    """

    def __init__(self) -> None:
        self._balance = 0.0
        self._length = SHORT

    def most(self, written: int, price: float) -> int:
        """Return how many tokens to guess now; none where they would lose more than they may."""
        affordable = int((self._balance + MODEL_LOSS + MODEL_SHARE * written) / (ROW + price))
        return 0 if affordable < SHORT else min(self._length, affordable)

    def settle(self, guessed: int, kept: int, price: float) -> None:
        """Note that `kept` of so many guesses came true."""
        self.pay(guessed * (ROW + price) - kept)
        self._length = min(LONG, self._length + MORE) if kept == guessed else SHORT

    def pay(self, price: float) -> None:
        """Take so many tokens from the account."""
        self._balance -= price
