//! Tests of forecasts, all with fixed seeds.

mod calibration;
mod world;
