//! As whom the control connection of a target logs in: the present login, and those of before a
//! change.
//!
//! Invariant: of each former user the last login is kept, and the last one that has got in. What it
//! opened may still run: two wrong passwords in a row must not lose the login that can stop it, and
//! a newer one may be right though nobody has used it yet.

use crate::executor::pg_client::Login;
use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The present login and those of before. It opens no connection itself.
pub(super) struct ControlLogins(Mutex<State>);

struct State {
    present: Known,
    /// Of each user the last one, and the last one that has got in.
    former: Vec<Known>,
}

struct Known {
    login: Login,
    /// The server has taken it.
    got_in: bool,
}

impl ControlLogins {
    pub(super) fn new(login: Login) -> Self {
        let present = Known {
            login,
            got_in: false,
        };
        ControlLogins(Mutex::new(State {
            present,
            former: Vec::new(),
        }))
    }

    pub(super) fn present(&self) -> Login {
        self.state().present.login.clone()
    }

    pub(super) fn former(&self) -> Vec<Login> {
        let state = self.state();
        let former = state.former.iter();
        former.map(|known| known.login.clone()).collect()
    }

    /// Whether the present one logs in as this user.
    pub(super) fn is_of(&self, user: &str) -> bool {
        self.state().present.login.user() == user
    }

    /// Another one is the present one from now on.
    pub(super) fn change(&self, login: Login) {
        let State { present, former } = &mut *self.state();
        if present.login == login {
            return;
        }
        let got_in = former.iter().any(|one| one.login == login && one.got_in);
        former.retain(|one| one.login != login);
        let before = mem::replace(present, Known { login, got_in });
        let same_user = |one: &Known| one.login.user() == before.login.user();
        let has_got_in = |one: &Known| same_user(one) && one.got_in;
        let kept = match before.got_in {
            true => None,
            false => former.iter().rposition(has_got_in),
        };
        let mut places = 0..;
        former.retain(|one| {
            let place = places.next();
            !same_user(one) || place == kept
        });
        former.push(before);
    }

    /// The server has taken this one, if it is among them.
    pub(super) fn note_got_in(&self, login: &Login) {
        let State { present, former } = &mut *self.state();
        let mut all = former.iter_mut().chain([present]);
        if let Some(known) = all.find(|one| one.login == *login) {
            known.got_in = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, password: &str) -> Login {
        let url = format!("postgres://{user}:{password}@localhost/app");
        url.parse().expect("a login")
    }

    #[test]
    fn the_last_login_of_a_user_and_the_last_that_got_in_are_kept() {
        let logins = ControlLogins::new(login("a", "first"));
        logins.note_got_in(&login("a", "first"));
        logins.change(login("a", "wrong"));
        assert_eq!(logins.former(), [login("a", "first")]);
        logins.change(login("a", "wrong_again"));
        assert_eq!(
            logins.former(),
            [login("a", "first"), login("a", "wrong")],
            "it may be right by now"
        );
        logins.change(login("a", "second"));
        assert_eq!(
            logins.former(),
            [login("a", "first"), login("a", "wrong_again")]
        );
        logins.note_got_in(&login("a", "second"));
        logins.change(login("b", "wrong"));
        assert_eq!(logins.former(), [login("a", "second")]);
        logins.change(login("b", "wrong_again"));
        assert_eq!(
            logins.former(),
            [login("a", "second"), login("b", "wrong")],
            "nobody knows of b"
        );
    }

    #[test]
    fn a_login_that_is_present_again_is_not_forgotten_by_the_next_change() {
        let logins = ControlLogins::new(login("a", "first"));
        logins.note_got_in(&login("a", "first"));
        for password in ["wrong", "first", "wrong_again"] {
            logins.change(login("a", password));
        }
        assert_eq!(logins.former(), [login("a", "first")]);
        assert_eq!(logins.present(), login("a", "wrong_again"));
    }
}
