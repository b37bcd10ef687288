//! Tests of forecasts, all with fixed seeds.

mod answers;
mod calibration;
mod held;
mod world;
