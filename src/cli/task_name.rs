//! A task on the command line: `HANDLE/SEQ`.

use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskName {
    pub(super) handle: String,
    pub(super) seq: i64,
}

impl FromStr for TaskName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (handle, seq) = text.rsplit_once('/').ok_or("write it as HANDLE/SEQ")?;
        let seq = seq
            .parse()
            .map_err(|_| format!("`{seq}` is not a task number"))?;
        Ok(TaskName {
            handle: handle.to_owned(),
            seq,
        })
    }
}
