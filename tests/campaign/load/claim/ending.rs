//! How a claim is ended: by its caller, or by an operator.

use super::{Claim, RETRY_INTERVAL};
use crate::{
    claims::Call,
    history::{Answer, now},
};
use rallypoint_client::api;
use tokio::time::sleep;

impl Claim {
    /// Gives it back, or withdraws it. Says whether it is known to have ended.
    pub(super) async fn release(&mut self, until: i64) -> bool {
        while now() < until {
            let (begun, claim, token) = (now(), self.claim, self.token());
            let mut client = self.load.resources(self.server);
            let call = client.release(api::ReleaseRequest { claim, token });
            match self.load.once(call).await {
                Answer::Ok(answer) => {
                    self.note_shown(Call::Release, begun, &answer.claim.unwrap_or_default());
                    return true;
                }
                Answer::Refused(why) => {
                    let is_granted = why == "TOKEN_MISMATCH" && token == 0;
                    self.note_failed(Call::Release, begun, true, why);
                    if !is_granted || !self.look().await {
                        return false;
                    }
                }
                Answer::Unknown(why) => {
                    self.note_failed(Call::Release, begun, false, why);
                    self.server += 1;
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
        false
    }

    /// An operator ends the hold, and its caller goes on as if it had it still. Says whether it is
    /// known to have ended.
    pub(super) async fn lose(&mut self, until: i64) -> bool {
        while now() < until {
            let begun = now();
            let request = api::ForceReleaseRequest {
                claim: self.claim,
                reason: "the campaign".into(),
            };
            let mut client = self.load.resources(self.server);
            match self.load.once(client.force_release(request)).await {
                Answer::Ok(answer) => {
                    let token = self.token();
                    let claim = answer.claim.unwrap_or_default();
                    self.note_shown(Call::ForceRelease, begun, &claim);
                    self.renew_lost(token).await;
                    return true;
                }
                Answer::Refused(why) => {
                    self.note_failed(Call::ForceRelease, begun, true, why);
                    return false;
                }
                Answer::Unknown(why) => {
                    self.note_failed(Call::ForceRelease, begun, false, why);
                    self.server += 1;
                    sleep(RETRY_INTERVAL).await;
                }
            }
        }
        false
    }

    /// Renews a claim that has ended, and looks at it.
    async fn renew_lost(&mut self, token: i64) {
        let (begun, claim) = (now(), self.claim);
        let mut client = self.load.resources(self.server);
        let call = client.renew(api::RenewRequest { claim, token });
        match self.load.once(call).await {
            Answer::Ok(answer) => {
                self.note_shown(Call::Renew, begun, &answer.claim.unwrap_or_default());
            }
            Answer::Refused(why) => self.note_failed(Call::Renew, begun, true, why),
            Answer::Unknown(why) => self.note_failed(Call::Renew, begun, false, why),
        }
        self.look().await;
    }
}
