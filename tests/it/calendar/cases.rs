//! Zones, expressions and windows for which due times are compared.

/// Whole hours, half hours and quarters; changes at midnight, by half an hour and by two hours,
/// backwards in summer, around Ramadan; zones that changed for good.
pub(super) const ZONES: [&str; 30] = [
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "UTC",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/Chisinau",
    "Europe/Moscow",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Gaza",
    "Asia/Almaty",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "America/St_Johns",
    "America/Los_Angeles",
    "America/Havana",
    "America/Santiago",
    "America/Asuncion",
    "America/Nuuk",
    "America/Scoresbysund",
    "Australia/Adelaide",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Apia",
    "Antarctica/Troll",
];

/// Those in which something is known to be easily wrong.
const NOTABLE: [&str; 28] = [
    "30 2 * * *",
    "30 1 * * *",
    "0 0 * * *",
    "*/15 1-3 * * *",
    "0 * * * *",
    "45 * * * *",
    "* 0-2 * * *",
    "59 23 * * *",
    "0 9 * * MON-FRI",
    "0 0 13 * FRI",
    "15 2 * * SUN",
    "0 2 L 3,10 *",
    "0 3 * * *",
    "0 0 29 2 *",
    "0 12 31 * *",
    "30 0 L * *",
    "0 6 LW * *",
    "0 6 15W * *",
    "0 6 1W,31W * *",
    "0 9 * * MON#1,fri#5",
    "0 9 * * 5L",
    "0 9 1 * 0,7",
    "0 9 * * FRI-SUN",
    "5,10-20/5,59 */6 1-7 JAN-MAR,12 *",
    "*/7 */5 */10 */2 *",
    "*/10 * * * *",
    "1-59/2 3 * * SUN",
    "* * * * *",
];

/// So many expressions, always the same.
pub(super) fn expressions(count: usize) -> Vec<String> {
    let mut choice = Choice(1);
    let notable = NOTABLE.iter().map(|text| text.to_string());
    let others = std::iter::repeat_with(|| choice.expression());
    notable.chain(others).take(count).collect()
}

/// A period, and where in it the window opens and closes.
pub(super) const WINDOWS: [[&str; 3]; 17] = [
    ["DAY", "13:00", "23:00"],
    ["DAY", "00:00", "00:30"],
    ["DAY", "01:30", "02:30"],
    ["DAY", "02:10", "02:50"],
    ["DAY", "22:00", "02:00"],
    ["DAY", "23:45", "00:15"],
    ["WEEK", "MON 08:00", "FRI 18:00"],
    ["WEEK", "SUN 02:30", "SUN 02:45"],
    ["WEEK", "SAT 12:00", "TUE 12:00"],
    ["WEEK", "SUN 00:10", "SUN 00:40"],
    ["MONTH", "1 00:00", "5 12:00"],
    ["MONTH", "31 02:30", "31 23:59"],
    ["MONTH", "30 22:00", "2 06:00"],
    ["MONTH", "30 22:00", "31 06:00"],
    ["MONTH", "15 13:00", "15 12:00"],
    ["DAY", "03:00", "03:00"],
    ["DAY", "01:59", "02:01"],
];

/// A sequence of numbers that looks like chance.
struct Choice(u64);

impl Choice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }

    fn expression(&mut self) -> String {
        let (minute, hour) = (self.minute(), self.hour());
        let (day, month, weekday) = (self.day(), self.month(), self.weekday());
        format!("{minute} {hour} {day} {month} {weekday}")
    }

    fn minute(&mut self) -> String {
        let (a, b) = (self.below(60), self.below(60));
        match self.below(5) {
            0 => format!("{},{}", a, b),
            1 => format!("*/{}", 15 + self.below(45)),
            2 => format!("{}-{}/{}", a.min(b), a.max(b), 20 + self.below(10)),
            _ => a.to_string(),
        }
    }

    fn hour(&mut self) -> String {
        let (a, b) = (self.below(24), self.below(24));
        match self.below(8) {
            0 => "*".to_owned(),
            1 => format!("{}-{}", a.min(b), a.max(b)),
            2 => format!("*/{}", 2 + self.below(10)),
            3 => format!("{a},{b}"),
            // Where clocks change.
            4 | 5 => self.below(4).to_string(),
            _ => a.to_string(),
        }
    }

    fn day(&mut self) -> String {
        let (a, b) = (1 + self.below(28), 1 + self.below(28));
        match self.below(10) {
            0 => a.to_string(),
            1 => format!("{}-{}", a.min(b), a.max(b)),
            2 => format!("{a}W,L"),
            3 => format!("*/{}", 2 + self.below(9)),
            _ => "*".to_owned(),
        }
    }

    fn month(&mut self) -> String {
        let (a, b) = (1 + self.below(12), 1 + self.below(12));
        match self.below(6) {
            0 => format!("{},{}", a, b),
            1 => format!("{}-{}", a.min(b), a.max(b)),
            _ => "*".to_owned(),
        }
    }

    fn weekday(&mut self) -> String {
        let day = ["SUN", "mon", "2", "WED", "4", "FRI", "6"][self.below(7) as usize];
        match self.below(8) {
            0 => day.to_owned(),
            1 => "MON-FRI".to_owned(),
            2 => format!("{day}#{}", 1 + self.below(4)),
            3 => format!("{day}L"),
            _ => "*".to_owned(),
        }
    }
}
