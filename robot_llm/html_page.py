"""One HTML page with its pictures inside; it loads nothing from anywhere."""

import base64
from collections.abc import Iterable, Sequence
import html
from typing import Any, Final

_STYLE: Final = (
    'body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;'
    'color:#222}table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;'
    'padding:.3em .7em;text-align:right}td:first-child,th:first-child{text-align:left}'
    'img{max-width:100%}figure{margin:1em 0}small,figcaption{color:#666}'
    '.bad{color:#a00;font-weight:bold}')


class HtmlPage:
    """
    A page that grows from top to bottom; every text is escaped.

    :param title: of the window, and the first heading
    """

    def __init__(self, title: str) -> None:
        self._parts = [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            f'<title>{html.escape(title)}</title><style>{_STYLE}</style>',
            f'<h1>{html.escape(title)}</h1>']

    def heading(self, text: str, *, anchor: str = '', level: int = 2) -> None:
        """Add a heading; ``anchor`` is what ``contents`` links to."""
        name = f' id="{html.escape(anchor)}"' if anchor else ''
        self._parts.append(f'<h{level}{name}>{html.escape(text)}</h{level}>')

    def paragraph(self, text: str, *, is_bad: bool = False) -> None:
        """Add a paragraph; a bad one catches the eye."""
        self._parts.append(f'<p{" class=bad" if is_bad else ""}>{html.escape(text)}</p>')

    def preformatted(self, text: str) -> None:
        """Add text whose columns stand under each other."""
        self._parts.append(f'<pre>{html.escape(text)}</pre>')

    def contents(self, entries: Iterable[tuple[str, str]]) -> None:
        """Add links to headings of this page: (anchor, text)."""
        links = (f'<a href="#{html.escape(anchor)}">{html.escape(text)}</a>'
                 for anchor, text in entries)
        self._parts.append(f'<p>{" · ".join(links)}</p>')

    def table(self, rows: Iterable[Sequence[Any]], header: Sequence[str] = ()) -> None:
        """Add a table; an empty header is none."""
        body = ''.join(_table_line(row, 'td') for row in rows)
        head = _table_line(header, 'th') if any(header) else ''
        self._parts.append(f'<table>{head}{body}</table>')

    def picture(self, png: bytes, title: str, caption: str = '') -> None:
        """Add a picture; ``title`` is read aloud to whoever does not see it."""
        encoded = base64.b64encode(png).decode()
        below = f'<figcaption>{html.escape(caption)}</figcaption>' if caption else ''
        self._parts.append(
            f'<figure><img alt="{html.escape(title)}" src="data:image/png;base64,{encoded}">'
            f'{below}</figure>')

    def text(self) -> str:
        """Return the page."""
        return '\n'.join(self._parts) + '\n'


def _table_line(cells: Sequence[Any], tag: str) -> str:
    inner = ''.join(f'<{tag}>{html.escape(str(cell))}</{tag}>' for cell in cells)
    return f'<tr>{inner}</tr>'
