//! Connections between an executor and the hub of another process: what is on its way in them, late
//! or lost with them. The two sides end independently of each other.

use rallypoint::{
    executor_protocol::ExecutorId,
    hub::session::message::{ToExecutor, ToOwner},
};
use std::collections::VecDeque;
use uuid::Uuid;

#[derive(Default)]
pub(crate) struct Network {
    pub connections: Vec<Connection>,
}

pub(crate) struct Connection {
    pub from: Uuid,
    pub to: Uuid,
    pub up: VecDeque<ToOwner>,
    pub down: VecDeque<ToExecutor>,
    /// The executor's side has not hung up.
    pub client_open: bool,
    /// The executor's side knows that it is connected.
    pub connected: bool,
    pub server: Server,
    /// Nothing more is sent to the executor.
    pub down_closed: bool,
    /// Nothing arrives any more, either way, and neither side knows yet.
    pub cut: bool,
    /// Nothing arrives for a while.
    pub stalled: bool,
}

/// The owner's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// It has not heard the hello.
    Fresh,
    /// The hub has been asked.
    Asked(ExecutorId),
    Admitted(ExecutorId),
    Over,
}

impl Network {
    pub(crate) fn connect(&mut self, from: Uuid, to: Uuid, hello: ToOwner) {
        self.connections.push(Connection {
            from,
            to,
            up: VecDeque::from([hello]),
            down: VecDeque::new(),
            client_open: true,
            connected: false,
            server: Server::Fresh,
            down_closed: false,
            cut: false,
            stalled: false,
        });
    }

    /// The connection that this executor has.
    pub(crate) fn of_client(&mut self, from: Uuid) -> Option<&mut Connection> {
        let is_of_executor = |one: &&mut Connection| one.from == from && one.client_open;
        self.connections.iter_mut().find(is_of_executor)
    }

    pub(crate) fn of_member(&mut self, to: Uuid, member: ExecutorId) -> Option<&mut Connection> {
        let is_of_member = |one: &&mut Connection| {
            let server = [Server::Asked(member), Server::Admitted(member)];
            one.to == to && server.contains(&one.server)
        };
        self.connections.iter_mut().find(is_of_member)
    }

    /// A process dies, and its ends of all connections.
    pub(crate) fn die(&mut self, run: Uuid) {
        for one in &mut self.connections {
            if one.from == run {
                one.client_open = false;
            }
            if one.to == run {
                (one.server, one.down_closed) = (Server::Over, true);
            }
        }
    }

    pub(crate) fn sweep(&mut self) {
        let is_over = |one: &Connection| !one.client_open && one.server == Server::Over;
        self.connections.retain(|one| !is_over(one));
    }
}
