//! What an operator sees from outside: metrics, whose values are those of real work, the page that
//! describes them, and the probes.

mod audit;
mod monitoring;
mod page;
mod prometheus;
mod scaler;
mod scrape;
mod standby;
mod values;
