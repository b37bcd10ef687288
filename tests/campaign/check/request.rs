//! One call that submits, with every try of it.

use crate::history::{Answer, Asked};

/// One call with all its tries.
#[derive(Default)]
pub(crate) struct Request {
    pub handle: String,
    pub tasks: Vec<Asked>,
    pub tries: Vec<Try>,
}

pub(crate) struct Try {
    pub begun: i64,
    pub ended: i64,
    pub answer: Answer<(i64, i32)>,
}

impl Request {
    pub(crate) fn accepted(&self) -> Option<(i64, i32)> {
        self.tries.iter().find_map(|one| {
            if let Answer::Ok(ok) = one.answer {
                Some(ok)
            } else {
                None
            }
        })
    }

    /// It was sent more than once.
    pub(crate) fn is_repeated(&self) -> bool {
        self.tries.len() > 1
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.accepted().is_none()
            && self
                .tries
                .iter()
                .any(|one| matches!(one.answer, Answer::Unknown(_)))
    }
}
