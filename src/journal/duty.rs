//! The limits of a connection by its duty: no statement of the journal runs without a timeout.

use sqlx::{ConnectOptions, postgres::PgConnectOptions};

/// What a connection is for; decides its limits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Duty {
    Writer,
    Heartbeat,
    Reader,
    Maintenance,
    Recovery,
}

impl Duty {
    /// Options of a connection for this duty.
    pub(super) fn options(self, options: &PgConnectOptions) -> PgConnectOptions {
        let (name, statement_timeout) = match self {
            Duty::Writer => ("rallypoint journal writer", "30s"),
            Duty::Heartbeat => ("rallypoint journal heartbeat", "10s"),
            Duty::Reader => ("rallypoint journal reader", "30s"),
            Duty::Maintenance => ("rallypoint journal maintenance", "5min"),
            Duty::Recovery => ("rallypoint journal recovery", "10min"),
        };
        let options = options
            .clone()
            .application_name(name)
            .disable_statement_logging()
            .options([
                ("statement_timeout", statement_timeout),
                ("idle_in_transaction_session_timeout", "15s"),
                ("synchronous_commit", "on"),
                // Keeps notices about tables that exist already out of the log.
                ("client_min_messages", "warning"),
                ("client_connection_check_interval", "5s"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "5"),
                ("tcp_keepalives_count", "3"),
                ("timezone", "UTC"),
            ]);
        match self {
            Duty::Writer => {
                options.options([("plan_cache_mode", "force_generic_plan"), ("jit", "off")])
            }
            // Lookups by key, however wrong the statistics of a young table are.
            Duty::Recovery => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
            ]),
            // Every ordered read follows an index; a sort would read all rows of a handle first.
            Duty::Reader => options.options([("jit", "off"), ("enable_sort", "off")]),
            Duty::Heartbeat => options.options([("jit", "off")]),
            // Lookups by key in tables that may never have been analyzed; short waits for locks.
            Duty::Maintenance => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
                ("enable_seqscan", "off"),
                ("lock_timeout", "2s"),
            ]),
        }
    }
}
