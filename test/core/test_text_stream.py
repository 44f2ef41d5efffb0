"""Whatever the tokens, the reader gets whole characters, no stop string and all of the rest."""

from collections.abc import Iterable, Sequence

from hypothesis import example, given
from hypothesis import strategies as st
import pytest
from robot_llm.core.text_stream import TextStream


def stream(chunks: Iterable[bytes], stop: Sequence[str] = ()) -> str:
    text_stream = TextStream(stop)
    pieces = [text_stream.feed(chunk) for chunk in chunks] + [text_stream.finish()]
    assert ''.join(pieces) == text_stream.text
    return text_stream.text


def decoded(data: bytes) -> tuple[str, int]:
    """Return the reference: the whole text, and the length of the unfinished last character."""
    for num_dropped in range(min(3, len(data)), 0, -1):
        try:
            data[-num_dropped:].decode()
        except UnicodeDecodeError as error:
            if error.start == 0 and error.reason == 'unexpected end of data':
                text = data[:-num_dropped].decode('utf-8', 'replace')
                return text.replace('\0', ''), num_dropped
    return data.decode('utf-8', 'replace').replace('\0', ''), 0


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """Return the reference: the text before the earliest match, and the longest match there."""
    for start in range(len(text)):
        if matches := [s for s in stop if text.startswith(s, start)]:
            return text[:start], max(matches, key=len)
    return text, None


# Few letters, so that stop strings overlap each other and the text all the time.
LETTERS = st.text('ab\0🤖', max_size=12)
STOPS = st.lists(st.text('ab🤖', min_size=1, max_size=3), max_size=4)
BYTES = st.one_of(LETTERS.map(str.encode), st.binary(max_size=12), st.text(max_size=8).map(
    lambda text: text.encode('utf-8', 'surrogatepass')))
CUTS = st.lists(st.integers(0, 60), max_size=12)


def chunks_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in zip(edges, edges[1:])]


@pytest.mark.parametrize(('raw', 'stop', 'expected'), [
    ('grüße 你好 🤖', (), 'grüße 你好 🤖'),
    ('cafe\u0301 👩\u200d🚒 🇫🇷', (), 'cafe\u0301 👩\u200d🚒 🇫🇷'),
    ('dock<|im_end|>noise', ('<|im_end|>',), 'dock'),
    ('a < b', ('<|im_end|>',), 'a < b'),
    ('ends with <|im_', ('<|im_end|>',), 'ends with <|im_'),
    ('aab', ('ab',), 'a'),
    ('hello big world.', ('wor', 'o b'), 'hell'),
    ('xabcd', ('bc', 'abcd'), 'x'),
    ('xabcx', ('bc', 'abcd'), 'xa'),
    ('🤖🤗!', ('🤗',), '🤖'),
    ('a\0b', (), 'ab'),
    ('a\0b', ('ab',), ''),
])
def test_any_split_of_the_bytes_gives_the_same_text(
    raw: str, stop: Sequence[str], expected: str,
) -> None:
    data = raw.encode()
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            chunks = [data[:first], data[first:second], data[second:]]
            assert stream(chunks, stop) == expected
    assert stream([bytes([b]) for b in data], stop) == expected


@given(BYTES, STOPS, CUTS)
@example('🤖'.encode()[:3], [], [1, 2])
@example(b'a\xf0\x9f(\xe2\x82', ['b'], [2, 3])
@example(b'\xed\xa0\x80', [], [1, 2])
@example(b'a\xed\xa0', [], [2])          # half a surrogate is invalid, not unfinished
@example(b'ab\xe2', ['ab', 'abb'], [1])
def test_the_stream_equals_the_reference_over_the_whole_text(
    data: bytes, stop: list[str], cuts: list[int],
) -> None:
    text_stream = TextStream(stop)
    for chunk in chunks_of(data, cuts):
        text_stream.feed(chunk)
    stopped_before_the_end = text_stream.stopped
    text_stream.finish()
    text, num_dropped = decoded(data)
    expected_text, expected_stop = cut_at_stop(text, stop)
    assert text_stream.text == expected_text
    assert text_stream.stop_string == expected_stop
    assert text_stream.stopped == (expected_stop is not None)
    assert text_stream.num_dropped_bytes == (0 if stopped_before_the_end else num_dropped)


@given(BYTES, STOPS, CUTS)
def test_text_is_held_back_only_while_a_stop_string_may_be_coming(
    data: bytes, stop: list[str], cuts: list[int],
) -> None:
    text_stream = TextStream(stop)
    num_fed = 0
    for chunk in chunks_of(data, cuts):
        text_stream.feed(chunk)
        num_fed += len(chunk)
        complete, _ = decoded(data[:num_fed])
        assert complete.startswith(text_stream.text)
        if text_stream.stopped:
            assert text_stream.text == cut_at_stop(complete, stop)[0]
            return
        held = complete[len(text_stream.text):]
        assert not held or any(s.startswith(held) and s != held for s in stop)


@given(BYTES, STOPS, CUTS)
def test_what_leaves_can_be_published(data: bytes, stop: list[str], cuts: list[int]) -> None:
    text = stream(chunks_of(data, cuts), stop)
    assert '\0' not in text
    text.encode('utf-8')                  # raises for a lone surrogate
    assert not any(s in text for s in stop)


def test_a_base_character_does_not_wait_for_its_combining_mark() -> None:
    text_stream = TextStream()
    assert text_stream.feed(b'e') == 'e'
    assert text_stream.feed('\u0301'.encode()) == '\u0301'
    assert text_stream.text == 'e\u0301'


def test_a_character_over_three_tokens_leaves_with_the_third() -> None:
    text_stream = TextStream()
    robot = '🤖'.encode()
    assert [text_stream.feed(part) for part in (robot[:2], robot[2:3], robot[3:])] == ['', '', '🤖']


def test_a_disproved_stop_string_is_released_at_once() -> None:
    text_stream = TextStream(['<end>'])
    parts = [text_stream.feed(part) for part in (b'a <', b'en', b'<', b'x')]
    assert parts == ['a ', '', '<en', '<x']


def test_nothing_leaves_after_a_stop() -> None:
    text_stream = TextStream(['\n'])
    assert text_stream.feed(b'dock\nhere') == 'dock'
    assert text_stream.stop_string == '\n'
    assert text_stream.feed('🤖'.encode()[:2]) == text_stream.finish() == ''
    assert (text_stream.text, text_stream.num_dropped_bytes) == ('dock', 0)


def test_of_two_stop_strings_that_begin_together_the_longer_one_is_awaited() -> None:
    text_stream = TextStream(['\n', '\n\n'])
    assert (text_stream.feed(b'a\n'), text_stream.stopped) == ('a', False)
    assert (text_stream.finish(), text_stream.stop_string) == ('', '\n')
    text_stream = TextStream(['\n', '\n\n'])
    assert (text_stream.feed(b'a\n\n'), text_stream.stop_string) == ('a', '\n\n')


def test_an_unfinished_last_character_is_dropped_and_counted_once() -> None:
    text_stream = TextStream(['wor'])
    assert text_stream.feed(b'hello wo' + '🤖'.encode()[:3]) == 'hello '
    assert (text_stream.finish(), text_stream.finish()) == ('wo', '')
    assert (text_stream.text, text_stream.num_dropped_bytes) == ('hello wo', 3)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match='empty stop string'):
        TextStream(['a', ''])


def test_a_long_answer_is_not_looked_at_again() -> None:
    class CountingStream(TextStream):
        num_characters = 0

        def _may_begin_at(self, buffer: str, start: int) -> bool:
            CountingStream.num_characters += 1
            return super()._may_begin_at(buffer, start)

    text_stream = CountingStream(['a' * 8 + 'b'])
    for _ in range(2000):
        text_stream.feed(b'a')
    assert text_stream.num_characters <= 2000 * 2
    assert text_stream.finish() == 'a' * 8
