//! Who the server takes a client for, and what it may do: for programs that offer a person only
//! what the server will let that person do. The server has the last word in any case.

use crate::{
    Client,
    error::{Error, Result},
};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tonic::{
    Status,
    body::Body,
    codegen::http::{Request, StatusCode},
};
use tower::ServiceExt;

/// An answer is some hundred bytes.
const MAX_BYTES: usize = 64 << 10;

/// Whom the server sees in a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The server asks who calls. If not, everybody may do everything.
    pub knows_callers: bool,
    /// The name of the caller; empty: what the client presents is not valid, or nothing.
    pub name: String,
    /// The namespace of the client's calls; empty: it has none, or several.
    pub namespace: String,
    /// The role there: `reader`, `submitter`, `operator`, `admin`; empty: none.
    pub role: String,
    /// The role in all namespaces.
    pub everywhere: String,
}

impl Client {
    /// Asks the server who this client is. `None`: the server does not say, because it is of an
    /// earlier version, or a proxy lets only calls pass.
    pub async fn identity(&self) -> Result<Option<Identity>> {
        let asked = async {
            let (pick, channel) = self.servers.pick();
            let answer = channel.oneshot(self.session_request()).await;
            let answer =
                answer.map_err(|error| self.failed(pick, Status::from_error(Box::new(error))));
            let (head, body) = answer?.into_parts();
            if head.status.is_server_error() {
                let said = format!("the server does not say who calls: {}", head.status);
                return Err(Error::from(Status::unavailable(said)));
            }
            let body = Limited::new(body, MAX_BYTES).collect().await;
            let body = body.map_err(|error| Error::from(Status::from_error(error)))?;
            let is_said = head.status == StatusCode::OK;
            Ok(is_said.then(|| said(&body.to_bytes())).flatten())
        };
        self.in_time(asked).await
    }

    fn session_request(&self) -> Request<Body> {
        let (metadata, _, ()) = self.request(()).into_parts();
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = tonic::codegen::http::Uri::from_static("/session");
        *request.headers_mut() = metadata.into_headers();
        request
    }
}

/// What an answer says.
fn said(body: &[u8]) -> Option<Identity> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    Some(Identity {
        knows_callers: answer["knows_callers"].as_bool()?,
        name: text("name")?,
        namespace: text("namespace")?,
        role: text("role")?,
        everywhere: text("everywhere")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_none_says_nothing() {
        let answer = br#"{"knows_callers":true,"name":"anna","namespace":"a","role":"reader","everywhere":""}"#;
        let identity = said(answer).expect("an identity");
        assert_eq!(
            (identity.name.as_str(), identity.role.as_str()),
            ("anna", "reader")
        );
        for other in [&b"<html>"[..], b"{}", br#"{"knows_callers":1}"#] {
            assert_eq!(said(other), None);
        }
    }
}
