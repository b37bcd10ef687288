//! A line chart as SVG: throughput against size, with that of the empty server beside it.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
pub(crate) const HEIGHT: f64 = 360.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
pub(crate) const TOP: f64 = 50.0;
pub(crate) const BOTTOM: f64 = 50.0;

/// A chart: title, axis labels, positions along the x axis, and lines with a value at each.
pub(crate) struct Chart<'a> {
    pub title: &'a str,
    pub x_label: &'a str,
    pub y_label: &'a str,
    pub positions: Vec<f64>,
    /// Name, colour, values.
    pub lines: Vec<(&'a str, &'a str, Vec<f64>)>,
}

impl Chart<'_> {
    /// The text of an SVG file. Positions are evenly spaced, because sizes grow by factors.
    pub(crate) fn svg(&self) -> String {
        let most = self
            .lines
            .iter()
            .flat_map(|(_, _, values)| values)
            .fold(1.0, |most: f64, value| most.max(*value));
        let top = ceiling(most);
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.draw(top, &mut out);
        out
    }

    fn draw(&self, top: f64, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"
 font-family="sans-serif" font-size="12">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
<text x="{LEFT}" y="20" font-size="15" fill="#111111">{}</text>"##,
            self.title
        )?;
        for step in 0..=4 {
            let value = top * f64::from(step) / 4.0;
            let y = y(value, top);
            writeln!(
                out,
                r##"<line x1="{LEFT}" y1="{y:.1}" x2="{}" y2="{y:.1}" stroke="#dddddd"/>
<text x="{}" y="{:.1}" text-anchor="end" fill="#555555">{}</text>"##,
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                short(value)
            )?;
        }
        for (index, position) in self.positions.iter().enumerate() {
            let (x, y) = (self.x(index), HEIGHT - BOTTOM + 18.0);
            writeln!(
                out,
                r##"<text x="{x:.1}" y="{y}" text-anchor="middle" fill="#555555">{}</text>"##,
                short(*position)
            )?;
        }
        let (middle, bottom) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0);
        writeln!(
            out,
            r##"<text x="{middle}" y="{bottom}" text-anchor="middle" fill="#111111">{}</text>"##,
            self.x_label
        )?;
        writeln!(
            out,
            r##"<text x="{LEFT}" y="40" fill="#555555">{}</text>"##,
            self.y_label
        )?;
        for (index, line) in self.lines.iter().enumerate() {
            self.line(index, line, top, out)?;
        }
        writeln!(out, "</svg>")
    }

    fn line(
        &self,
        index: usize,
        (name, colour, values): &(&str, &str, Vec<f64>),
        top: f64,
        out: &mut String,
    ) -> std::fmt::Result {
        let points: Vec<(f64, f64)> = values
            .iter()
            .enumerate()
            .map(|(at, value)| (self.x(at), y(*value, top)))
            .collect();
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        writeln!(
            out,
            r##"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"##,
            path.join(" ")
        )?;
        for (x, y) in points {
            writeln!(
                out,
                r##"<circle cx="{x:.1}" cy="{y:.1}" r="3.5" fill="{colour}"/>"##
            )?;
        }
        let x = WIDTH - RIGHT - 190.0;
        let y = TOP - 30.0 + 18.0 * index as f64;
        writeln!(
            out,
            r##"<rect x="{x}" y="{}" width="12" height="12" fill="{colour}"/>
<text x="{}" y="{}" fill="#111111">{name}</text>"##,
            y - 10.0,
            x + 18.0,
            y
        )
    }

    fn x(&self, index: usize) -> f64 {
        let steps = (self.positions.len().max(2) - 1) as f64;
        LEFT + 30.0 + (WIDTH - LEFT - RIGHT - 60.0) * index as f64 / steps
    }
}

fn y(value: f64, top: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value / top)
}

/// The next round number: 1, 2, 4 or 8 times a power of ten.
fn ceiling(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    [1.0, 2.0, 4.0, 8.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|top| *top >= most)
        .unwrap_or(most)
}

fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e3 => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}
