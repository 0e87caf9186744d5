# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled Receiver and ChunkWriter of `dataplane/`, fast paths that forward whole chunks by template, and a scan of
JSON texts.

`dataplane/python_core.py` and `dataplane/json_shape.py` document the contracts. tests/unit hold both implementations to
them (docs/adr/0023).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport INFINITY
from libc.string cimport memchr, memcmp, memcpy

from time import monotonic

from orjson import dumps, loads

VERSION = 14  # The version of this interface. Increase it with every change, here and in dataplane/core.py.

cdef enum:
    _MAX_SIZE_DIGITS = 7  # hexadecimal digits of a chunk's size: no read has 256 MiB
    _DECIMAL = 10
    _HEX = 16
    _LONG_READ = 2048  # bytes from which a read is given to `process_read` in two parts
    _READS_PER_JOIN_CHECK = 4  # the same as in dataplane/coalescing.py
    _FIRST_CHUNKS = 3  # a delta run can be learnt from this many chunks of a reply

cdef extern from *:
    """
    #ifdef _WIN32
    static Py_ssize_t send_now(int number, const char *data, Py_ssize_t length) { return -1; }
    #else
    #include <sys/socket.h>
    /* Python ignores SIGPIPE, so no flag has to prevent it. */
    static Py_ssize_t send_now(int number, const char *data, Py_ssize_t length) {
        return send(number, data, length, MSG_DONTWAIT);
    }
    #endif
    """
    Py_ssize_t send_now(int number, const char *data, Py_ssize_t length)

cdef tuple _LINE_BREAKS = ("\n", "\r")
cdef const char *_DIGITS = b"0123456789abcdef"


cdef struct Span:
    Py_ssize_t start  # offsets in a read: of a chunk's body, or of a string without its quotes
    Py_ssize_t end
    Py_ssize_t chunk_end  # the end of the chunk that contains the string
    bint has_escapes
    bint is_ascii
    bint is_held_back  # nothing is sent for the string now


cdef bint next_chunk(const char *data, Py_ssize_t length, Py_ssize_t *at, Span *body) noexcept nogil:
    """Sets `body` to the body of the chunk at `at`, and moves `at` behind the chunk.

    Returns False if there is no whole chunk there in the common form: no zeros before its size, no extension after it.
    """
    cdef Py_ssize_t i = at[0], size = 0
    cdef Py_ssize_t digits_end = min(length, i + _MAX_SIZE_DIGITS)
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
    """Returns False if the bytes between quotes are not a JSON string.

    True is certain only for ASCII without escapes. Other bytes must still be decoded: it sets `has_escapes` and
    `is_ascii`, which tell how.
    """
    cdef Py_ssize_t i
    cdef unsigned char byte
    text.has_escapes = False
    text.is_ascii = True
    for i in range(text.start, text.end):
        byte = <unsigned char>data[i]
        if byte < 0x20 or (byte == c'"' and not text.has_escapes):
            return False
        if byte == c'\\':
            text.has_escapes = True
        elif byte >= 0x80:
            text.is_ascii = False
    return True


cdef class Receiver:
    """Gives reads to the fast path as long as it forwards them, and everything else to `process_read`."""

    cdef public object fast_path, waiter
    cdef public bint between_chunks, has_more, is_coalesced
    cdef public double forwarded_at
    cdef public int reads

    def __init__(self):
        self.forwarded_at = -INFINITY

    def data_received(self, bytes data not None):
        """Gives a long read to `process_read` in two parts: the first chunks may make a fast path for the rest."""
        cdef Py_ssize_t forwarded = self.forward_read(data), length = PyBytes_GET_SIZE(data), split
        if forwarded == length:
            return
        split = self.end_of_first_chunks(data, forwarded)
        if split:
            self.has_more = True
            try:
                self.process_read(data[forwarded:split])
            finally:
                self.has_more = False
            data = data[split:]
            forwarded = self.forward_read(data)
            if forwarded == PyBytes_GET_SIZE(data):
                return
        self.process_read(data[forwarded:] if forwarded else data)

    cdef Py_ssize_t forward_read(self, bytes data) except -1:
        """Forwards chunks by the fast path, and returns how many bytes that was. Drops the path unless it was all."""
        cdef Py_ssize_t forwarded = 0
        fast_path = self.fast_path  # this reference keeps it alive if it is replaced during the call
        if fast_path is None:
            return 0
        if self.waiter is not None and not self.waiter.done:
            if isinstance(fast_path, _FrameFastPath):
                forwarded = (<_FrameFastPath>fast_path).forward_chunks(data)
                if forwarded == PyBytes_GET_SIZE(data):
                    self.note_forwarded_at((<_FrameFastPath>fast_path).forwarded_at)
                    return forwarded
            else:
                forwarded = fast_path.forward_chunks(data)
                if forwarded == PyBytes_GET_SIZE(data):
                    self.note_forwarded()
                    return forwarded
        self.fast_path = None
        return forwarded

    cdef Py_ssize_t end_of_first_chunks(self, bytes data, Py_ssize_t at):
        """Returns the end of the first chunks from `at` on, or 0 if what follows is too short to be worth a split.

        A wrong result would do no harm: `process_read` may get a read in any parts.
        """
        cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Span body
        cdef int i
        if length - at < _LONG_READ:
            return 0
        if start[at] == c'H':  # the read begins with the head of the reply
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
            if self.reads == _READS_PER_JOIN_CHECK:
                self.reads = 0
                self.on_steady_flow()
        return 0

    def on_chunk_header(self):
        self.between_chunks = False

    def on_chunk_complete(self):
        self.between_chunks = True


cdef class ChunkWriter:
    """Writes chunks of a reply's body to the connection of one client."""

    cdef public bint ready
    cdef public object write_chunk, transport
    cdef public int socket
    cdef public double sent_at

    def __cinit__(self):
        self.socket = -1

    cdef int send_chunk(self, bytes chunk) except -1:
        """Does what `write_chunk` does, but past the transport if that has nothing left to send."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(chunk), sent
        # A closing transport may free the descriptor at any time, and the bytes in its buffer must be sent first.
        if self.socket >= 0 and not self.transport.is_closing() and not self.transport.get_write_buffer_size():
            sent = send_now(self.socket, PyBytes_AS_STRING(chunk), length)
            if sent == length:
                return 0
            if sent > 0:
                chunk = chunk[sent:]
        self.write_chunk(chunk)  # if the socket refused it, the transport finds out why
        return 0


cdef unsigned int[256] _CRC_TABLE


cdef void fill_crc_table() noexcept:
    """Computes the table of CRC-32 as zlib has it."""
    cdef unsigned int value
    cdef int i, bit
    for i in range(256):
        value = i
        for bit in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        _CRC_TABLE[i] = value


fill_crc_table()


cdef class _TextSum:
    """Counts texts for a StreamedText of `translation/representation/streamed_text.py`, which asks for the counts.

    While it counts, the StreamedText refers to it, and otherwise it refers to the StreamedText: never both.
    """

    cdef object streamed_text  # None if it counts already, or nothing is to be counted
    cdef bint is_counting
    cdef Py_ssize_t size, ink_size
    cdef unsigned int checksum

    def __init__(self, streamed_text):
        self.streamed_text = streamed_text

    cdef int begin(self) except -1:
        """Begins to count where the StreamedText stands, unless it counts already."""
        if self.streamed_text is not None:
            self.streamed_text.settle()
            self.size = self.streamed_text.size
            self.ink_size = self.streamed_text.ink_size
            self.checksum = ~<unsigned int>self.streamed_text.checksum
            self.streamed_text.live_counts = self
            self.streamed_text = None
            self.is_counting = True
        return 0

    def take(self, owner):
        """Returns the size, the size without white space and the checksum, and stops counting for `owner`."""
        self.streamed_text = owner
        self.is_counting = False
        return self.size, self.ink_size, <unsigned int>~self.checksum

    cdef void add(self, const char *data, Py_ssize_t length) noexcept:
        cdef Py_ssize_t i
        cdef unsigned char byte
        cdef unsigned int checksum = self.checksum
        if not self.is_counting:
            return
        for i in range(length):
            byte = <unsigned char>data[i]
            if byte != 0x20 and not 0x09 <= byte <= 0x0D:
                checksum = (checksum >> 8) ^ _CRC_TABLE[(checksum ^ byte) & 0xFF]
                self.ink_size += 1
        self.size += length
        self.checksum = checksum

    cdef int add_text(self, str text) except -1:
        cdef bytes data
        if self.is_counting:
            data = text.encode()
            self.add(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        return 0


cdef class _FrameFastPath:
    """Forwards whole chunks at the beginning of a read, if each of them is one frame of a delta run."""

    cdef ChunkWriter client
    cdef _TextSum text_sum
    cdef bytes head, tail
    cdef tuple stops  # the beginnings of texts that end the run
    cdef Span *strings  # the texts of the last read, without their quotes
    cdef Py_ssize_t capacity, count
    cdef double forwarded_at

    def __dealloc__(self):
        PyMem_Free(self.strings)

    cpdef Py_ssize_t forward_chunks(self, bytes data) except -1:
        """Forwards chunks from the start of a read, and returns how many of its bytes that was."""
        if data is None or not self.client.ready or not self.find_strings(data):
            return 0
        chunk = self.encode_chunk(data)
        if not self.count:
            return 0
        self.forwarded_at = monotonic()
        if chunk is not None:
            self.client.send_chunk(chunk)
            self.client.sent_at = self.forwarded_at
        return self.strings[self.count - 1].chunk_end

    cdef bytes encode_chunk(self, bytes data):
        """Returns one chunk with the client's frames for the strings; None if there are none.

        Reduces `count` at a string that it cannot encode.
        """
        raise NotImplementedError

    cdef bint find_strings(self, bytes data) except -1:
        """Sets `strings` and `count` to the texts of such chunks, and returns whether there are any."""
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(data), at = 0
        cdef Py_ssize_t head = PyBytes_GET_SIZE(self.head), tail = PyBytes_GET_SIZE(self.tail)
        cdef Span body
        self.count = 0
        if length // (head + tail) >= self.capacity:
            self.reserve(length // (head + tail) + 8)
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
            if not may_be_string(start, &body) or (self.stops and self.is_stop(start, &body)):
                break
            self.strings[self.count] = body
            self.count += 1
        return self.count > 0

    cdef bint is_stop(self, const char *start, Span *text):
        """Returns whether a text has to be decoded because of its beginning."""
        cdef bytes stop
        cdef Py_ssize_t length
        for stop in self.stops:
            length = PyBytes_GET_SIZE(stop)
            if text.end - text.start >= length and not memcmp(start + text.start, PyBytes_AS_STRING(stop), length):
                return True
        return False

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        PyMem_Free(self.strings)
        self.capacity = 0
        self.strings = <Span *>PyMem_Malloc(capacity * sizeof(Span))
        if self.strings == NULL:
            raise MemoryError
        self.capacity = capacity
        return 0


cdef class TemplateFastPath(_FrameFastPath):
    """Translates deltas of a chat upstream to deltas of a client with another API, by a DeltaTemplate."""

    cdef object encoder  # has the number of the last frame; None if the client's frames have no numbers
    cdef tuple observers  # called with each text; the first appends it to the reply
    cdef object trimmer  # holds line breaks at the end of texts back; None if texts are sent as they are
    cdef bytes before, between, after  # the parts of a frame around its number and its text; `before` is empty without one

    def __init__(self, template, ChunkWriter client not None):
        self.client = client
        self.encoder = template.encoder
        self.observers = template.observers
        self.trimmer = template.run.trimmer
        self.text_sum = _TextSum(template.run.streamed_text)
        self.head, self.tail = template.run.frame_head, template.run.frame_tail
        self.stops = template.run.stops
        parts = split_format(template.frame_format)
        if self.encoder is None:
            self.before = b""
            self.between, self.after = parts
        else:
            self.before, self.between, self.after = parts

    cdef bytes encode_chunk(self, bytes data):
        cdef Py_ssize_t i, size = 0, frames = 0
        cdef dict escaped = None  # maps the index of a string with escapes to its JSON for the client
        cdef Span span
        cdef const char *start = PyBytes_AS_STRING(data)
        cdef long long number = 0
        self.text_sum.begin()
        for i in range(self.count):
            span = self.strings[i]
            try:
                if span.has_escapes:
                    text = loads(data[span.start - 1 : span.end + 1])
                else:
                    text = PyUnicode_DecodeUTF8(start + span.start, span.end - span.start, NULL)
            except ValueError:
                text = None
            if not text:
                self.count = i
                break
            self.strings[i].is_held_back = False
            if span.has_escapes:
                self.text_sum.add_text(text)
            else:
                self.text_sum.add(start + span.start, span.end - span.start)
            if self.trimmer is not None and (
                (span.has_escapes and text.endswith(_LINE_BREAKS)) or self.trimmer.pending
            ):
                text = self.trimmer.trim_reasoning(text)
                if not text:
                    self.strings[i].is_held_back = True
                    continue
                self.strings[i].has_escapes = span.has_escapes = True
            frames += 1
            if span.has_escapes:
                if escaped is None:
                    escaped = {}
                string = dumps(text)
                escaped[i] = string
                size += PyBytes_GET_SIZE(string)
            else:
                size += span.end - span.start + 2
            for observe in self.observers:
                observe(text)
        if not frames:
            return None
        if self.encoder is not None:
            number = self.encoder.sequence
            self.encoder.sequence = number + frames
        return self.build_chunk(start, escaped, size, number, frames)

    cdef bytes build_chunk(
        self, const char *start, dict escaped, Py_ssize_t size, long long number, Py_ssize_t frames
    ):
        """Returns one chunk with the frames of all strings that are not held back, which are `frames`.

        `size` is the length of the strings as they are sent. `number` is that of the frame before them.
        """
        cdef Py_ssize_t before = PyBytes_GET_SIZE(self.before), between = PyBytes_GET_SIZE(self.between)
        cdef Py_ssize_t after = PyBytes_GET_SIZE(self.after), i
        cdef bytes chunk, string
        cdef char *to
        cdef Span *span
        cdef bint is_numbered = self.encoder is not None
        size += frames * (before + between + after)
        if is_numbered:
            for i in range(frames):
                size += width(number + 1 + i, _DECIMAL)
        chunk = PyBytes_FromStringAndSize(NULL, width(size, _HEX) + 2 + size + 2)
        to = put_number(PyBytes_AS_STRING(chunk), size, _HEX)
        to = put(to, "\r\n", 2)
        for i in range(self.count):
            span = &self.strings[i]
            if span.is_held_back:
                continue
            if is_numbered:
                number += 1
                to = put(to, PyBytes_AS_STRING(self.before), before)
                to = put_number(to, number, _DECIMAL)
            to = put(to, PyBytes_AS_STRING(self.between), between)
            if span.has_escapes:
                string = escaped[i]
                to = put(to, PyBytes_AS_STRING(string), PyBytes_GET_SIZE(string))
            else:
                to = put(to, start + span.start - 1, span.end - span.start + 2)
            to = put(to, PyBytes_AS_STRING(self.after), after)
        put(to, "\r\n", 2)
        return chunk


cdef class RelayFastPath(_FrameFastPath):
    """Forwards chat frames as they are, except for names that change, by a RelayTemplate."""

    cdef object rename_frames  # None if no name changes

    def __init__(self, template, ChunkWriter client not None):
        self.client = client
        self.head, self.tail = template.run.frame_head, template.run.frame_tail
        self.stops = template.run.stops
        self.rename_frames = template.rename_frames if template.renames else None
        self.text_sum = _TextSum(template.run.streamed_text)

    cdef bytes encode_chunk(self, bytes data):
        cdef Py_ssize_t i, end
        cdef Span span
        cdef const char *start = PyBytes_AS_STRING(data)
        self.text_sum.begin()
        for i in range(self.count):
            span = self.strings[i]
            try:
                if span.has_escapes:
                    self.text_sum.add_text(loads(data[span.start - 1 : span.end + 1]))
                    continue
                if not span.is_ascii:
                    PyUnicode_DecodeUTF8(start + span.start, span.end - span.start, NULL)
            except ValueError:
                self.count = i
                break
            self.text_sum.add(start + span.start, span.end - span.start)
        if not self.count:
            return None
        if self.rename_frames is not None:
            return self.build_renamed_chunk(data)
        end = self.strings[self.count - 1].chunk_end
        return data if end == PyBytes_GET_SIZE(data) else data[:end]

    cdef bytes build_renamed_chunk(self, bytes data):
        """Returns one chunk with the frames of all strings, with names changed."""
        cdef Py_ssize_t i
        cdef list frames = []
        for i in range(self.count):
            frames.append(data[self.strings[i].start - len(self.head) : self.strings[i].end + len(self.tail)])
        body = self.rename_frames(b"".join(frames))
        return b"%x\r\n%b\r\n" % (len(body), body)


cdef list split_format(bytes frame_format):
    """Returns the parts of a format around its placeholders of two bytes, with single percent signs for doubled ones."""
    cdef const char *data = PyBytes_AS_STRING(frame_format)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(frame_format), start = 0, i = 0
    cdef bint has_percents = False
    cdef list parts = []
    while i < length:
        if data[i] != c'%':
            i += 1
            continue
        if i + 1 < length and data[i + 1] == c'%':
            has_percents = True
        else:
            parts.append(frame_format[start:i])
            start = i + 2
        i += 2
    parts.append(frame_format[start:])
    return [part.replace(b"%%", b"%") for part in parts] if has_percents else parts


cdef inline char *put(char *to, const char *data, Py_ssize_t length) noexcept nogil:
    """Copies bytes to `to`, and returns the position behind them."""
    memcpy(to, data, length)
    return to + length


cdef inline Py_ssize_t width(long long number, int base) noexcept nogil:
    """Returns the number of digits of a positive number."""
    cdef Py_ssize_t digits = 1
    while number >= base:
        number //= base
        digits += 1
    return digits


cdef inline char *put_number(char *to, long long number, int base) noexcept nogil:
    """Writes the digits of a positive number to `to`, and returns the position behind them."""
    cdef char *end = to + width(number, base)
    cdef char *at = end
    while at > to:
        at -= 1
        at[0] = _DIGITS[number % base]
        number //= base
    return end


def measure_json(bytes text not None):
    """The number of values of a JSON text, and the depth of their nesting: see dataplane/json_shape.py."""
    cdef const char *data = PyBytes_AS_STRING(text)
    cdef Py_ssize_t i = 0, length = PyBytes_GET_SIZE(text), values = 1, level = 0, depth = 0
    cdef char byte
    with nogil:
        while i < length:
            byte = data[i]
            i += 1
            if byte == c'"':
                i = end_of_string(data, i, length)
            elif byte == c',':
                values += 1
            elif byte == c'[' or byte == c'{':
                values += 1
                level += 1
                depth = max(depth, level)
            elif byte == c']' or byte == c'}':
                level -= 1
    return values, depth


cdef inline Py_ssize_t end_of_string(const char *data, Py_ssize_t start, Py_ssize_t length) noexcept nogil:
    """Returns the offset behind the quote that ends the string whose text begins at `start`; `length` if none does."""
    cdef const char *quote
    cdef Py_ssize_t i = start, before
    while i < length:
        quote = <const char *>memchr(data + i, c'"', length - i)
        if quote == NULL:
            break
        before = quote - data
        # The quote is escaped if the number of backslashes before it is odd.
        while before > i and data[before - 1] == c'\\':
            before -= 1
        if (quote - data - before) % 2 == 0:
            return quote - data + 1
        i = quote - data + 1
    return length
