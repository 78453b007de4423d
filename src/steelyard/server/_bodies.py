"""What a request may bring: nothing, a JSON object, a form, or a file that is streamed to disk; never more than its limit.

The size is looked at before a byte is kept. Files get a name of our own; the worker reads them, not this process.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.requests import Request

from steelyard.server._call import Call
from steelyard.server._problems import Problem

_JSON, _FORM, _MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
_PIECE = 1 << 16


async def read(request: Request, call: Call) -> None:
    """Read the body as the line of the route says."""
    kind, media = call.endpoint.body, request.headers.get("content-type", "").partition(";")[0].strip().lower()
    config = call.server.config
    if kind == "json":
        _expect(media, (_JSON,))
        call.body = await _whole(request, config.largest_request)
    elif kind == "form" or (kind == "file" and media == _MULTIPART):
        _expect(media, (_FORM, _MULTIPART))
        await _form(request, call, _largest_file(call) if kind == "file" else config.largest_request)
    elif kind == "file":
        await _to_disk(request, call)
    else:
        await _whole(request, 0)


def _largest_file(call: Call) -> int:
    config = call.server.config
    return config.largest_submission if "board" in call.params else config.largest_upload


def _expect(media: str, allowed: tuple[str, ...]) -> None:
    if media not in allowed:
        raise Problem(415, "WrongMediaType", f"the body must be {' or '.join(allowed)}.")


def _check_length(request: Request, most: int) -> None:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length[:20]) > most:
        raise _too_large(most)


def _too_large(most: int) -> Problem:
    return Problem(413, "TooLarge", f"the body may have {most:,} bytes at most.", headers={"Connection": "close"})


async def _whole(request: Request, most: int) -> bytes:
    _check_length(request, most)
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > most:
            raise _too_large(most)
    return bytes(found)


async def _form(request: Request, call: Call, most: int) -> None:
    """A form's texts, and its one file if it brings one."""
    _check_length(request, most)
    if "content-length" not in request.headers:
        raise Problem(411, "LengthRequired", "say how long the form is.")
    try:
        form = await request.form(max_files=1, max_fields=200, max_part_size=call.server.config.largest_request)
    except Exception as fault:
        if type(fault).__name__ in ("HTTPException", "MultiPartException"):
            raise Problem(400, "BadForm", "the form cannot be read.") from None
        raise
    async with _closing(form):
        call.form = {name: value for name, value in form.items() if isinstance(value, str)}
        for value in form.values():
            if isinstance(value, UploadFile):
                call.file, call.file_digest = await _kept(value, call)
                call.file_name = value.filename or ""


class _closing:  # noqa: N801 - used like contextlib.closing
    def __init__(self, form: object) -> None:
        self._form = form

    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, *error: object) -> None:
        await self._form.close()  # type: ignore[attr-defined]


async def _kept(upload: UploadFile, call: Call) -> tuple[Path, str]:
    path, known = _new_file(call), hashlib.sha256()
    with path.open("r+b") as file:
        while piece := await upload.read(_PIECE):
            known.update(piece)
            file.write(piece)
    return path, known.hexdigest()


async def _to_disk(request: Request, call: Call) -> None:
    most = _largest_file(call)
    _check_length(request, most)
    call.file, known, size = _new_file(call), hashlib.sha256(), 0
    with call.file.open("r+b") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise _too_large(most)
            known.update(piece)
            file.write(piece)
    call.file_digest = known.hexdigest()


def _new_file(call: Call) -> Path:
    """An empty file under a name of our own; it is removed unless whoever handles the request moves it."""
    folder = call.server.config.folder / "incoming"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / secrets.token_hex(16)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path
