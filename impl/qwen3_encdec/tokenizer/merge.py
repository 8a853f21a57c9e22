"""What byte-pair encoding is: merge the neighbours of lowest rank, of equals the leftmost, until none are left.

Looking through all neighbours before each merge would take quadratic time. Here the pieces are a linked list, and a
heap holds the pairs that can be merged as (rank, place of the left piece): a run of a megabyte takes seconds.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import pairwise


def merge(symbols: str, ranks: Mapping[tuple[str, str], int]) -> tuple[list[str], list[int]]:
    """The pieces of a pre-token, which is given in symbols, and the ranks of the merges applied, in order."""
    pieces = list(symbols)  # A piece stands where it begins; "" where a piece was merged into one before it.
    end = len(pieces)
    before, behind = list(range(-1, end - 1)), list(range(1, end + 1))
    heap = [(rank, place) for place, pair in enumerate(pairwise(pieces)) if (rank := ranks.get(pair)) is not None]
    heapify(heap)
    applied = []
    while heap:
        rank, place = heappop(heap)
        following = behind[place]
        # Either piece may have been merged with another neighbour since the pair was noted.
        if following == end or ranks.get((pieces[place], pieces[following])) != rank:
            continue
        pieces[place] += pieces[following]
        pieces[following] = ""
        applied.append(rank)
        behind[place] = behind[following]
        if behind[place] < end:
            before[behind[place]] = place
            if (next_rank := ranks.get((pieces[place], pieces[behind[place]]))) is not None:
                heappush(heap, (next_rank, place))
        if before[place] >= 0 and (next_rank := ranks.get((pieces[before[place]], pieces[place]))) is not None:
            heappush(heap, (next_rank, before[place]))
    return [piece for piece in pieces if piece], applied
