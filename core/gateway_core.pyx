# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What `dataplane/python_receiver.py`, `dataplane/client_writer.py` and `dataplane/python_fast_path.py` do, compiled, and for reads of several
chunks too. There are its promises; tests/unit hold both to them (docs/adr/0023)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport INFINITY
from libc.string cimport memcmp, memcpy

from time import monotonic

from orjson import dumps, loads

VERSION = 10  # another one with any change of what is promised here: see dataplane/core.py

cdef enum:
    _MOST_DIGITS = 7  # of a chunk's size: no read has 256 MiB
    _DECIMAL = 10
    _HEX = 16
    _LONG_READ = 2048
    _READS = 4  # as of dataplane/coalescing.py
    _FIRST_CHUNKS = 3  # of a reply say what is alike in those that follow

cdef extern from *:
    """
    #ifdef _WIN32
    static Py_ssize_t send_now(int number, const char *data, Py_ssize_t length) { return -1; }
    #else
    #include <sys/socket.h>
    /* Python ignores the signal of a broken pipe. */
    static Py_ssize_t send_now(int number, const char *data, Py_ssize_t length) {
        return send(number, data, length, MSG_DONTWAIT);
    }
    #endif
    """
    Py_ssize_t send_now(int number, const char *data, Py_ssize_t length)

cdef tuple _LINE_BREAKS = ("\n", "\r")
cdef const char *_DIGITS = b"0123456789abcdef"


cdef struct Span:  # of a read
    Py_ssize_t start
    Py_ssize_t end
    Py_ssize_t chunk_end
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


cdef class Receiver:
    """Gives what comes to a fast_path for as long as there is one that takes it, then to `process_read`."""

    cdef public object fast_path, waiter
    cdef public bint between_chunks, has_more, is_coalesced
    cdef public double forwarded_at
    cdef public int reads

    def __init__(self):
        self.forwarded_at = -INFINITY

    def data_received(self, bytes data not None):
        """A long read is given to `process_read` in two parts: behind the first of its chunks there may be a fast_path."""
        cdef Py_ssize_t passed = self.pass_on(data), length = PyBytes_GET_SIZE(data), begun
        if passed == length:
            return
        begun = self.first_chunks(data, passed)
        if begun:
            self.has_more = True
            try:
                self.process_read(data[passed:begun])
            finally:
                self.has_more = False
            data = data[begun:]
            passed = self.pass_on(data)
            if passed == PyBytes_GET_SIZE(data):
                return
        self.process_read(data[passed:] if passed else data)

    cdef Py_ssize_t pass_on(self, bytes data) except -1:
        cdef Py_ssize_t passed = 0
        fast_path = self.fast_path  # held, whatever becomes of it meanwhile
        if fast_path is None:
            return 0
        if self.waiter is not None and not self.waiter.done:
            if isinstance(fast_path, _Frames):
                passed = (<_Frames>fast_path).forward_chunks(data)
                if passed == PyBytes_GET_SIZE(data):
                    self.note_forwarded_at((<_Frames>fast_path).forwarded_at)
                    return passed
            else:
                passed = fast_path.forward_chunks(data)
                if passed == PyBytes_GET_SIZE(data):
                    self.note_forwarded()
                    return passed
        self.fast_path = None
        return passed

    cdef Py_ssize_t first_chunks(self, bytes data, Py_ssize_t at):
        """Where they end, if there is so much more that it pays; else 0. Wherever it is, `process_read` may be told."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Span body
        cdef int i
        if length - at < _LONG_READ:
            return 0
        if start[at] == c'H':  # the head comes with it
            at = data.find(b"\r\n\r\n", at)
            if at < 0:
                return 0
            at += 4
        for i in range(_FIRST_CHUNKS):
            if not next_chunk(start, length, &at, &body):
                return 0
        return at if at < length else 0

    cpdef note_forwarded(self):
        self.note_forwarded_at(monotonic())

    cdef int note_forwarded_at(self, double now) except -1:
        self.forwarded_at = now
        if not self.is_coalesced:
            self.reads += 1
            if self.reads == _READS:
                self.reads = 0
                self.on_steady_flow()
        return 0

    def on_chunk_header(self):
        self.between_chunks = False

    def on_chunk_complete(self):
        self.between_chunks = True


cdef class ChunkWriter:
    """What a fast_path needs of who is written to."""

    cdef public bint ready
    cdef public object write_chunk, transport
    cdef public int socket
    cdef public double sent_at

    def __cinit__(self):
        self.socket = -1

    cdef int send_chunk(self, bytes chunk) except -1:
        """As `write_chunk` does, but past the transport where nothing is in its way."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(chunk), sent
        # One that closes may give the number back to the system at any time, and what it has kept goes first.
        if self.socket >= 0 and not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            sent = send_now(self.socket, PyBytes_AS_STRING(chunk), length)
            if sent == length:
                return 0
            if sent > 0:
                chunk = chunk[sent:]
        self.write_chunk(chunk)  # which also finds out why the socket would not take it
        return 0


cdef class _Frames:
    """What comes begins with whole chunks, each a frame of one run."""

    cdef ChunkWriter client
    cdef bytes head, tail
    cdef Span *strings  # of the last read, without their quotes
    cdef Py_ssize_t room, count
    cdef double forwarded_at

    def __dealloc__(self):
        PyMem_Free(self.strings)

    cpdef Py_ssize_t forward_chunks(self, bytes data) except -1:
        """How many bytes were passed on."""
        if data is None or not self.client.ready or not self.find(data):
            return 0
        made = self.made_of(data)
        if not self.count:
            return 0
        self.client.send_chunk(made)
        self.client.sent_at = self.forwarded_at = monotonic()
        return self.strings[self.count - 1].chunk_end

    cdef bytes made_of(self, bytes data):
        """One chunk of what the strings become, which may be fewer then."""
        raise NotImplementedError

    cdef bint find(self, bytes data) except -1:
        """Whether there are such chunks; then there are their `strings`."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(data), at = 0
        cdef Py_ssize_t head = PyBytes_GET_SIZE(self.head), tail = PyBytes_GET_SIZE(self.tail)
        cdef Span body
        self.count = 0
        if length // (head + tail) >= self.room:
            self.make_room(length // (head + tail) + 8)
        while at < length:
            if not next_chunk(start, length, &at, &body) or body.end - body.start < head + tail:
                break
            if memcmp(start + body.start, PyBytes_AS_STRING(self.head), head):
                break
            if memcmp(start + body.end - tail, PyBytes_AS_STRING(self.tail), tail):
                break
            body.start += head
            body.end -= tail
            body.chunk_end = at
            if not may_be_string(start, &body):
                break
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


cdef class TemplateFastPath(_Frames):
    """From deltas of an upstream to deltas of ours."""

    cdef object encoder
    cdef tuple appends  # called with each text
    cdef bint stops_at_line_break
    cdef bytes before, between, after  # of an event: up to its number, from there to its text, and behind

    def __init__(self, template, ChunkWriter client not None):
        self.client = client
        self.encoder = template.encoder
        self.appends = (template.append, *template.observers)
        self.stops_at_line_break = template.run.stops_at_line_break
        self.head, self.tail = template.run.frame_head, template.run.frame_tail
        # JSON has no bare zeros, so they may stand for what is no place of a number or a text.
        before, rest = template.frame_format.replace(b"%%", b"\0").split(b"%d")
        between, after = rest.split(b"%b")
        self.before, self.between, self.after = (part.replace(b"\0", b"%") for part in (before, between, after))

    cdef bytes made_of(self, bytes data):
        cdef Py_ssize_t i, size = 0
        cdef dict escaped = None  # which string -> as it goes out
        cdef Span span
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef long long number
        for i in range(self.count):
            span = self.strings[i]
            try:
                if span.has_escapes:
                    text = loads(data[span.start - 1 : span.end + 1])
                else:
                    text = PyUnicode_DecodeUTF8(start + span.start, span.end - span.start, NULL)
            except ValueError:
                text = None
            if not text or (self.stops_at_line_break and span.has_escapes and text.endswith(_LINE_BREAKS)):
                self.count = i
                break
            if span.has_escapes:
                if escaped is None:
                    escaped = {}
                string = dumps(text)
                escaped[i] = string
                size += PyBytes_GET_SIZE(string)
            else:
                size += span.end - span.start + 2
            for append in self.appends:
                append(text)
        if not self.count:
            return None
        number = self.encoder.sequence
        self.encoder.sequence = number + self.count
        return self.frames(start, escaped, size, number)

    cdef bytes frames(self, const char *start, dict escaped, Py_ssize_t size, long long number):
        """One chunk with all of them. `size`: of the strings, as they will stand there."""
        cdef Py_ssize_t before = PyBytes_GET_SIZE(self.before), between = PyBytes_GET_SIZE(self.between)
        cdef Py_ssize_t after = PyBytes_GET_SIZE(self.after), i
        cdef bytes made, string
        cdef char *to
        cdef Span *span
        size += self.count * (before + between + after)
        for i in range(self.count):
            size += width(number + 1 + i, _DECIMAL)
        made = PyBytes_FromStringAndSize(NULL, width(size, _HEX) + 2 + size + 2)
        to = put_number(PyBytes_AS_STRING(made), size, _HEX)
        to = put(to, "\r\n", 2)
        for i in range(self.count):
            span = &self.strings[i]
            to = put(to, PyBytes_AS_STRING(self.before), before)
            to = put_number(to, number + 1 + i, _DECIMAL)
            to = put(to, PyBytes_AS_STRING(self.between), between)
            if span.has_escapes:
                string = escaped[i]
                to = put(to, PyBytes_AS_STRING(string), PyBytes_GET_SIZE(string))
            else:
                to = put(to, start + span.start - 1, span.end - span.start + 2)
            to = put(to, PyBytes_AS_STRING(self.after), after)
        put(to, "\r\n", 2)
        return made


cdef class RelayFastPath(_Frames):
    """As they came, but for names."""

    cdef object renamed

    def __init__(self, template, ChunkWriter client not None):
        self.client = client
        self.head, self.tail = template.run.frame_head, template.run.frame_tail
        self.renamed = template.rename_frames if template.renames else None

    cdef bytes made_of(self, bytes data):
        cdef Py_ssize_t i, end
        cdef Span span
        cdef const char *start = PyBytes_AS_STRING(data)
        for i in range(self.count):
            span = self.strings[i]
            try:
                if span.has_escapes:
                    loads(data[span.start - 1 : span.end + 1])
                elif not span.is_ascii:
                    PyUnicode_DecodeUTF8(start + span.start, span.end - span.start, NULL)
            except ValueError:
                self.count = i
                break
        if not self.count:
            return None
        if self.renamed is not None:
            return self.frames(data)
        end = self.strings[self.count - 1].chunk_end
        return data if end == PyBytes_GET_SIZE(data) else data[:end]

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


cdef inline Py_ssize_t width(long long number, int base) noexcept nogil:
    """How many digits it has; it is positive."""
    cdef Py_ssize_t digits = 1
    while number >= base:
        number //= base
        digits += 1
    return digits


cdef inline char *put_number(char *to, long long number, int base) noexcept nogil:
    cdef char *end = to + width(number, base)
    cdef char *at = end
    while at > to:
        at -= 1
        at[0] = _DIGITS[number % base]
        number //= base
    return end
