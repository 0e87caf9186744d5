# cython: language_level=3, boundscheck=False, wraparound=False
"""What `gateway/python_passage.py` does, compiled, and for reads of several chunks too. There are its promises; tests/unit hold
both to them (docs/adr/0023)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy

from time import monotonic

from orjson import dumps, loads

VERSION = 1  # another one with any change of what is promised here: see providers/core.py

cdef enum:
    _MOST_DIGITS = 7  # of a chunk's size: no read has 256 MiB
    _NUMBER_BYTES = 24


cdef struct Span:  # of a read
    Py_ssize_t start
    Py_ssize_t end
    bint has_escapes
    bint is_ascii


cdef bint next_chunk(const char *data, Py_ssize_t length, Py_ssize_t *at, Span *body) noexcept nogil:
    """The body of the chunk at `at`, which goes on behind it. False where there is no whole one, as it is commonly
    written: no zeros before its size, nothing after it."""
    cdef Py_ssize_t i = at[0], size = 0
    cdef Py_ssize_t digits_end = min(length, i + _MOST_DIGITS)
    cdef int digit
    if i == length or data[i] == c'0':
        return False
    while i < digits_end:
        if c'0' <= data[i] <= c'9':
            digit = data[i] - c'0'
        elif c'a' <= data[i] <= c'f':
            digit = data[i] - c'a' + 10
        elif c'A' <= data[i] <= c'F':
            digit = data[i] - c'A' + 10
        else:
            break
        size = size * 16 + digit
        i += 1
    if i == at[0] or length - i < 4 or data[i] != c'\r' or data[i + 1] != c'\n':
        return False
    body.start = i + 2
    if size > length - body.start - 2:
        return False
    body.end = body.start + size
    at[0] = body.end + 2
    return data[body.end] == c'\r' and data[body.end + 1] == c'\n'


cdef bint may_be_string(const char *data, Span *text) noexcept nogil:
    """False where the bytes, within quotes, are no JSON string. True is sure of ASCII without escapes, and has to be looked
    at of others: it notes which they are."""
    cdef Py_ssize_t i
    cdef unsigned char each
    text.has_escapes = False
    text.is_ascii = True
    for i in range(text.start, text.end):
        each = <unsigned char>data[i]
        if each < 0x20 or (each == c'"' and not text.has_escapes):
            return False
        if each == c'\\':
            text.has_escapes = True
        elif each >= 0x80:
            text.is_ascii = False
    return True


def whole_chunks(bytes data not None, list pieces not None):
    """Whether data in which a parser found these pieces of a body, and no fault, began and ended between two chunks. What
    was left of an earlier chunk would be a piece too, from the first byte on."""
    cdef Py_ssize_t at = 0
    cdef Span body
    cdef bytes piece
    cdef const char *start = PyBytes_AS_STRING(data)
    if not pieces or data.startswith(pieces[0]):
        return False
    for piece in pieces:
        if not next_chunk(start, len(data), &at, &body) or body.end - body.start != len(piece):
            return False
        if memcmp(start + body.start, PyBytes_AS_STRING(piece), len(piece)):
            return False
    return at == len(data)


cdef class _Frames:
    """Reads that are whole chunks, each a frame of one run."""

    cdef object client
    cdef bytes head, tail
    cdef Span *strings  # of the last read, without their quotes
    cdef Py_ssize_t room, count

    def __dealloc__(self):
        PyMem_Free(self.strings)

    cdef bint find(self, bytes data) except -1:
        """Whether the read is such a one; then there are its `strings`."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(data), at = 0
        cdef Py_ssize_t head = PyBytes_GET_SIZE(self.head), tail = PyBytes_GET_SIZE(self.tail)
        cdef Span body
        self.count = 0
        if length // (head + tail) >= self.room:
            self.make_room(length // (head + tail) + 8)
        while at < length:
            if not next_chunk(start, length, &at, &body) or body.end - body.start < head + tail:
                return False
            if memcmp(start + body.start, PyBytes_AS_STRING(self.head), head):
                return False
            if memcmp(start + body.end - tail, PyBytes_AS_STRING(self.tail), tail):
                return False
            body.start += head
            body.end -= tail
            if not may_be_string(start, &body):
                return False
            self.strings[self.count] = body
            self.count += 1
        return self.count > 0

    cdef int make_room(self, Py_ssize_t room) except -1:
        PyMem_Free(self.strings)
        self.room = 0
        self.strings = <Span *>PyMem_Malloc(room * sizeof(Span))
        if self.strings == NULL:
            raise MemoryError
        self.room = room
        return 0

    cdef int write(self, bytes chunks) except -1:
        self.client.write_chunk(chunks)
        self.client.sent_at = monotonic()
        return 0


cdef class Retold(_Frames):
    """From deltas of an upstream to deltas of ours."""

    cdef object encoder, append
    cdef bytes before, between, after  # of an event: up to its number, from there to its text, and behind

    def __init__(self, retelling, client):
        self.client = client
        self.encoder = retelling.encoder
        self.append = retelling.append
        self.head, self.tail = retelling.run.frame_head, retelling.run.frame_tail
        # JSON has no bare zeros, so they may stand for what is no place of a number or a text.
        before, rest = retelling.template.replace(b"%%", b"\0").split(b"%d")
        between, after = rest.split(b"%b")
        self.before, self.between, self.after = (part.replace(b"\0", b"%") for part in (before, between, after))

    def pass_chunks(self, bytes data not None):
        cdef Py_ssize_t i, size = 0
        cdef list texts = [], strings = []
        cdef Span span
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef long long number
        if not self.client.ready or not self.find(data):
            return False
        try:
            for i in range(self.count):
                span = self.strings[i]
                if span.start == span.end:
                    return False
                if span.has_escapes:
                    text = loads(data[span.start - 1 : span.end + 1])
                    if not text:
                        return False
                    string = dumps(text)
                    size += len(<bytes>string)
                else:
                    text = PyUnicode_DecodeUTF8(start + span.start, span.end - span.start, NULL)
                    string = None
                    size += span.end - span.start + 2
                texts.append(text)
                strings.append(string)
        except ValueError:
            return False
        number = self.encoder.sequence
        for text in texts:
            self.append(text)
        self.encoder.sequence = number + self.count
        self.write(self.frames(data, strings, size, number))
        return True

    cdef bytes frames(self, bytes data, list strings, Py_ssize_t size, long long number):
        """One chunk with all of them. `size`: of the strings, as they will stand there."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t before = len(self.before), between = len(self.between), after = len(self.after), i
        cdef char digits[_NUMBER_BYTES]
        cdef char line[_NUMBER_BYTES]
        cdef Py_ssize_t width, line_bytes
        cdef bytes made, string
        cdef char *to
        cdef Span span
        size += self.count * (before + between + after)
        for i in range(self.count):
            size += snprintf(digits, _NUMBER_BYTES, "%lld", number + 1 + i)
        line_bytes = snprintf(line, _NUMBER_BYTES, "%zx\r\n", size)
        made = PyBytes_FromStringAndSize(NULL, line_bytes + size + 2)
        to = PyBytes_AS_STRING(made)
        to = put(to, line, line_bytes)
        for i in range(self.count):
            span = self.strings[i]
            width = snprintf(digits, _NUMBER_BYTES, "%lld", number + 1 + i)
            to = put(to, PyBytes_AS_STRING(self.before), before)
            to = put(to, digits, width)
            to = put(to, PyBytes_AS_STRING(self.between), between)
            if strings[i] is None:
                to = put(to, start + span.start - 1, span.end - span.start + 2)
            else:
                string = strings[i]
                to = put(to, PyBytes_AS_STRING(string), len(string))
            to = put(to, PyBytes_AS_STRING(self.after), after)
        put(to, "\r\n", 2)
        return made


cdef class Passed(_Frames):
    """As they came, but for names."""

    cdef object renamed

    def __init__(self, passing, client):
        self.client = client
        self.head, self.tail = passing.run.frame_head, passing.run.frame_tail
        self.renamed = passing.renamed if passing.renaming else None

    def pass_chunks(self, bytes data not None):
        cdef Py_ssize_t i
        cdef Span span
        cdef const char *start = PyBytes_AS_STRING(data)
        if not self.client.ready or not self.find(data):
            return False
        try:
            for i in range(self.count):
                span = self.strings[i]
                if span.has_escapes:
                    loads(data[span.start - 1 : span.end + 1])
                elif not span.is_ascii:
                    PyUnicode_DecodeUTF8(start + span.start, span.end - span.start, NULL)
        except ValueError:
            return False
        self.write(data if self.renamed is None else self.frames(data))
        return True

    cdef bytes frames(self, bytes data):
        """One chunk with all of them, renamed."""
        cdef Py_ssize_t i
        cdef list frames = []
        for i in range(self.count):
            frames.append(data[self.strings[i].start - len(self.head) : self.strings[i].end + len(self.tail)])
        made = self.renamed(b"".join(frames))
        return b"%x\r\n%b\r\n" % (len(made), made)


cdef inline char *put(char *to, const char *data, Py_ssize_t length) noexcept nogil:
    memcpy(to, data, length)
    return to + length
