//! Tests of forecasts, all with fixed seeds.

mod answers;
mod attempts;
mod calibration;
mod held;
mod world;
