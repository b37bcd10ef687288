//! One field of a cron expression: lists, ranges, steps and names, as a mask of bits.

/// A field: its place, its name, the numbers it takes, and the names of numbers.
pub(super) struct Field {
    /// From 1.
    pub(super) place: usize,
    pub(super) name: &'static str,
    pub(super) least: u8,
    pub(super) most: u8,
    /// Of `least` and the numbers after it.
    pub(super) names: &'static [&'static str],
}

const MONTHS: &[&str] = &[
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
/// From 0; Sunday is also 7.
pub(super) const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

pub(super) const MINUTE: Field = Field::numbers(1, "minute", 0, 59, &[]);
pub(super) const HOUR: Field = Field::numbers(2, "hour", 0, 23, &[]);
pub(super) const DAY: Field = Field::numbers(3, "day of month", 1, 31, &[]);
pub(super) const MONTH: Field = Field::numbers(4, "month", 1, 12, MONTHS);
pub(super) const WEEKDAY: Field = Field::numbers(5, "day of week", 0, 7, WEEKDAYS);

impl Field {
    const fn numbers(
        place: usize,
        name: &'static str,
        least: u8,
        most: u8,
        names: &'static [&'static str],
    ) -> Field {
        Field {
            place,
            name,
            least,
            most,
            names,
        }
    }

    /// The numbers of a list, as bits.
    pub(super) fn mask(&self, text: &str) -> Result<u64, String> {
        text.split(',')
            .try_fold(0, |mask, item| Ok(mask | self.item(item)?))
    }

    /// The numbers of `*`, `7`, `1-5`, `*/15` or `1-30/2`, as bits.
    pub(super) fn item(&self, item: &str) -> Result<u64, String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, self.step(item, range, step)?),
            None => (item, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((first, last)) => {
                let first = self.number(first)?;
                (first, self.last(first, last)?)
            }
            None => (self.number(range)?, self.number(range)?),
        };
        if first > last {
            let wrapped = format!("{first}-{},{}-{last}", self.most, self.least);
            let what = format!("`{range}` runs backwards: write `{wrapped}`");
            return Err(self.fault(what));
        }
        Ok((first..=last)
            .step_by(step)
            .fold(0, |mask, number| mask | 1 << number))
    }

    fn step(&self, item: &str, range: &str, step: &str) -> Result<usize, String> {
        if range != "*" && !range.contains('-') {
            let meant = format!("{range}-{}/{step}", self.most);
            return Err(self.fault(format!("`{item}`: write `{meant}`")));
        }
        let most = usize::from(self.most);
        let number = step.parse().ok().filter(|step| (1..=most).contains(step));
        number.ok_or_else(|| self.fault(format!("`{item}`: the step must be 1 to {most}")))
    }

    /// The end of a range: Sunday ends a week that begins later.
    fn last(&self, first: u8, text: &str) -> Result<u8, String> {
        let number = self.number(text)?;
        let is_sunday = self.most == WEEKDAY.most && number == 0 && first > 0;
        Ok(if is_sunday { self.most } else { number })
    }

    /// A number, or the name of one.
    pub(super) fn number(&self, text: &str) -> Result<u8, String> {
        let mut names = self.least..;
        let named = self.names.iter().zip(&mut names);
        let named = named
            .filter(|(name, _)| name.eq_ignore_ascii_case(text))
            .map(|(_, number)| number)
            .next();
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = || text.parse().ok().filter(|_| is_number);
        let number = named.or_else(number);
        number
            .filter(|number| (self.least..=self.most).contains(number))
            .ok_or_else(|| {
                let names = match self.names {
                    [first, .., last] => format!(", or {first} to {last}"),
                    _ => String::new(),
                };
                let (least, most) = (self.least, self.most);
                self.fault(format!("`{text}` must be {least} to {most}{names}"))
            })
    }

    /// Says which field is wrong.
    pub(super) fn fault(&self, what: impl AsRef<str>) -> String {
        format!("field {} ({}): {}", self.place, self.name, what.as_ref())
    }
}
