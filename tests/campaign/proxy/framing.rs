//! Where messages of the Postgres protocol begin and end, and the little that the proxy needs of
//! their content.

use super::half_open::Purpose;
use bytes::{Buf, Bytes, BytesMut};

/// Bytes that arrive, cut into messages.
#[derive(Default)]
pub(super) struct Messages {
    pub bytes: BytesMut,
    /// The first message of a client has no kind.
    headless: bool,
}

/// A whole message, with its head.
pub(super) struct Message {
    /// 0 for a client's first.
    pub kind: u8,
    pub bytes: Bytes,
}

impl Messages {
    pub(super) fn of_client() -> Self {
        Messages {
            headless: true,
            ..Messages::default()
        }
    }

    /// The next whole message.
    pub(super) fn next(&mut self) -> Option<Message> {
        let head = usize::from(!self.headless);
        let length = self.bytes.get(head..head + 4)?.get_u32() as usize + head;
        if self.bytes.len() < length {
            return None;
        }
        let kind = if self.headless { 0 } else { self.bytes[0] };
        self.headless = false;
        Some(Message {
            kind,
            bytes: self.bytes.split_to(length).freeze(),
        })
    }
}

impl Message {
    /// A client's first message says what the session is for.
    pub(super) fn opens(&self) -> Option<Purpose> {
        (self.kind == 0).then(|| Purpose::of_session(&self.bytes))
    }

    /// Postgres says that a statement has written a batch: exactly one row.
    pub(super) fn wrote_a_batch(&self) -> bool {
        self.kind == b'C' && self.bytes[5..].starts_with(b"INSERT 0 1\0")
    }

    /// Postgres has done a command of this kind.
    pub(super) fn is_done(&self, tag: &str) -> bool {
        let said = self
            .bytes
            .get(5..)
            .and_then(|said| said.strip_suffix(b"\0"));
        self.kind == b'C' && said == Some(tag.as_bytes())
    }

    /// Postgres has committed whatever there was to commit.
    pub(super) fn is_ready(&self) -> bool {
        self.kind == b'Z'
    }

    /// A client wants a statement carried out.
    pub(super) fn executes(&self) -> bool {
        self.kind == b'E'
    }
}

#[test]
fn messages_are_found_wherever_the_pieces_end() {
    let mut stream = vec![0, 0, 0, 9, 0, 3, 0, 0, 0];
    stream.extend(*b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
    for size in 1..stream.len() {
        let (mut messages, mut kinds) = (Messages::of_client(), Vec::new());
        for piece in stream.chunks(size) {
            messages.bytes.extend_from_slice(piece);
            kinds.extend(std::iter::from_fn(|| messages.next()).map(|message| message.kind));
        }
        assert_eq!(kinds, [0, b'E', b'S']);
    }
}
