//! The messages of a server, out of the bytes as they arrive. Pure.
//!
//! Invariant: no message makes this process hold more than [`MAX_FRAME`]. Of a larger one the bytes
//! are dropped as they arrive; of an error or a notice its head is kept, which says what it is.

use bytes::{Buf, BytesMut};
use postgres_protocol::message::backend::{
    ERROR_RESPONSE_TAG, Header, Message, NOTICE_RESPONSE_TAG,
};
use std::io;

/// The largest message that is taken whole: a row whose JSON fits into a result is smaller.
pub(super) const MAX_FRAME: usize = crate::core::model::limits::RESULT_BYTES + (64 << 10);
/// What is kept of a larger error or notice.
const HEAD: usize = 16 << 10;
/// Type and length of a message.
const HEADER: usize = 5;

/// What the server says next.
pub(crate) enum Frame {
    Message(Message),
    /// A message of this type that was too large, and is dropped.
    Oversized(u8),
}

/// Bytes that have arrived, and how many of the next ones are to be dropped.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) bytes: BytesMut,
    dropping: usize,
}

impl Frames {
    /// The next message, when enough of it has arrived.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        self.drop_arrived();
        let Some(header) = Header::parse(&self.bytes)? else {
            return Ok(None);
        };
        // The length counts itself, and not the type; it is never negative.
        let total = header.len() as usize + 1;
        if total <= MAX_FRAME {
            return Ok(Message::parse(&mut self.bytes)?.map(Frame::Message));
        }
        match header.tag() {
            ERROR_RESPONSE_TAG | NOTICE_RESPONSE_TAG => self.head(total),
            tag => {
                self.dropping = total;
                self.drop_arrived();
                Ok(Some(Frame::Oversized(tag)))
            }
        }
    }

    /// The head of an error or a notice, as a message of its own.
    fn head(&mut self, total: usize) -> io::Result<Option<Frame>> {
        if self.bytes.len() < HEAD {
            return Ok(None);
        }
        let mut head = self.bytes.split_to(HEAD);
        self.dropping = total - HEAD;
        // The length in its header, the end of the field that was cut, the end of all fields.
        let length = (HEAD - 1 + 2) as u32;
        head[1..HEADER].copy_from_slice(&length.to_be_bytes());
        head.extend_from_slice(&[0, 0]);
        Ok(Message::parse(&mut head)?.map(Frame::Message))
    }

    fn drop_arrived(&mut self) {
        let arrived = self.dropping.min(self.bytes.len());
        self.bytes.advance(arrived);
        self.dropping -= arrived;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fallible_iterator::FallibleIterator;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[tag], &length[..], body].concat()
    }

    /// What comes out when the bytes arrive in pieces of `piece` bytes, and the most that was held.
    fn arrive(bytes: &[u8], piece: usize) -> (Vec<Frame>, usize) {
        let (mut frames, mut found, mut held) = (Frames::default(), Vec::new(), 0);
        for piece in bytes.chunks(piece) {
            frames.bytes.extend_from_slice(piece);
            held = held.max(frames.bytes.len());
            while let Some(frame) = frames.next().expect("it makes sense") {
                found.push(frame);
            }
        }
        assert!(frames.bytes.is_empty(), "all of it has been read");
        (found, held)
    }

    #[test]
    fn messages_come_whole_however_they_arrive() {
        let bytes = [message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat();
        for piece in [1, 3, 7, 100] {
            let (found, _) = arrive(&bytes, piece);
            let [
                Frame::Message(Message::CommandComplete(done)),
                Frame::Message(Message::ReadyForQuery(ready)),
            ] = found.as_slice()
            else {
                panic!("two messages, in pieces of {piece}")
            };
            assert_eq!((done.tag().unwrap(), ready.status()), ("SELECT 1", b'I'));
        }
    }

    #[test]
    fn a_row_that_is_too_large_is_dropped_as_it_arrives() {
        let row = message(b'D', &vec![0; 5 * MAX_FRAME]);
        let bytes = [row, message(b'Z', b"I")].concat();
        let (found, held) = arrive(&bytes, 8 << 10);
        assert!(matches!(
            found.as_slice(),
            [
                Frame::Oversized(b'D'),
                Frame::Message(Message::ReadyForQuery(_))
            ]
        ));
        assert!(held <= 8 << 10, "{held} bytes were held");
    }

    #[test]
    fn an_error_that_is_too_large_says_what_it_is_all_the_same() {
        let text = "€".repeat(2 * MAX_FRAME);
        let fields = format!("SERROR\0VERROR\0C22012\0M{text}\0Rfunction\0\0");
        let bytes = [message(b'E', fields.as_bytes()), message(b'Z', b"I")].concat();
        let (found, held) = arrive(&bytes, 8 << 10);
        let [
            Frame::Message(Message::ErrorResponse(error)),
            Frame::Message(_),
        ] = found.as_slice()
        else {
            panic!("an error and the end")
        };
        let fields: Vec<(u8, usize)> = error
            .fields()
            .map(|field| Ok((field.type_(), field.value_bytes().len())))
            .collect()
            .expect("fields");
        assert_eq!(fields[..3], [(b'S', 5), (b'V', 5), (b'C', 5)]);
        assert_eq!((fields[3].0, fields.len()), (b'M', 4));
        assert!(fields[3].1 > HEAD / 2 && held <= HEAD + (8 << 10));
    }

    #[test]
    fn a_length_that_cannot_be_is_an_error() {
        for length in [0u32, 3, u32::MAX] {
            let mut frames = Frames::default();
            frames.bytes.extend_from_slice(b"D");
            frames.bytes.extend_from_slice(&length.to_be_bytes());
            assert!(frames.next().is_err(), "{length}");
        }
    }
}
