"""Expands schedules minute by minute with Python's zoneinfo, knowing nothing of how the service does it.

    PYTHONTZPATH= python3 calendar_oracle.py     (with numpy, and tzdata of the release that the service has)

Reads a line of JSON per time zone, {"zone", "first", "last", "crons": [[text, gap, fold], ...], "windows": [[period, after, before,
fold], ...]}, and answers with a line of JSON: per cron [count, digest] of the minutes at which it is due, per window the same of
pairs of opening and closing. Minutes are counted from 1970-01-01 00:00 UTC; years are first..last, both included. A request with
"list" gets the minutes themselves.
"""

import calendar
import json
import re
import sys
from datetime import date, datetime, timedelta, timezone
from importlib.metadata import version
from zoneinfo import ZoneInfo

import numpy

DAY = 24 * 60
EPOCH = date(1970, 1, 1).toordinal()
# Local times are looked for a little before and behind the years: a window may close in the next month.
MARGIN = 70 * DAY
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()


def minute_of(year):
    return (date(year, 1, 1).toordinal() - EPOCH) * DAY


class Zone:
    """The local time of every minute."""

    def __init__(self, name, first, last):
        self.first, self.end = minute_of(first), minute_of(last + 1)
        self.base = self.first - MARGIN
        zone = ZoneInfo(name)
        local = []
        for minute in range(self.base, self.end + MARGIN):
            there = datetime.fromtimestamp(minute * 60, zone)
            local.append((there.toordinal() - EPOCH) * DAY + there.hour * 60 + there.minute)
        self.local = numpy.array(local)
        self.day, self.minute = self.local // DAY, self.local % DAY
        latest_before = numpy.maximum.accumulate(self.local)[:-1]
        self.second = numpy.concatenate([[False], self.local[1:] <= latest_before])
        self.twice = numpy.isin(self.local, self.local[self.second])
        # Where each local minute is, for the first and the last time; -1: nowhere.
        self.origin = int(self.local.min())
        size = int(self.local.max()) - self.origin + 1
        self.first_at, self.last_at = numpy.full(size, -1), numpy.full(size, -1)
        index = numpy.arange(len(self.local))
        self.first_at[self.local[::-1] - self.origin] = index[::-1]
        self.last_at[self.local - self.origin] = index
        jumps = numpy.flatnonzero(numpy.diff(self.local) > 1) + 1
        self.gaps = [(int(at), range(int(self.local[at - 1]) + 1, int(self.local[at]))) for at in jumps]

    def days(self):
        low, high = self.day.min(), self.day.max()
        return int(low), [date.fromordinal(int(day) + EPOCH) for day in range(low, high + 1)]

    def at(self, local, fold):
        """The index of the minute with this local time; behind the gap in which it is."""
        found = self.last_at if fold == "SECOND" else self.first_at
        local -= self.origin
        while found[local] < 0:
            local += 1
        return int(found[local])


def number(text, names, base):
    return names.index(text.upper()) + base if text.upper() in names else int(text)


def numbers(item, low, high, names=(), base=0):
    """The numbers of one item of a list."""
    body, _, step = item.partition("/")
    if body == "*":
        ends = low, high
    else:
        ends = [number(end, names, base) for end in body.split("-")]
        ends = ends[0], ends[-1]
        if ends[1] < ends[0]:
            ends = ends[0], ends[1] + 7
    return set(range(ends[0], ends[1] + 1, int(step or 1)))


def workday(day):
    """The Monday to Friday that is nearest, in the same month."""
    if day.weekday() < 5:
        return day
    near = sorted((abs(offset), offset) for offset in range(-2, 3))
    candidates = [day + timedelta(offset) for _, offset in near]
    return next(one for one in candidates if one.weekday() < 5 and one.month == day.month)


def is_of_month(day, field):
    last = day.replace(day=calendar.monthrange(day.year, day.month)[1])
    for item in field.upper().split(","):
        if item == "L":
            if day == last:
                return True
        elif item == "LW":
            if day == workday(last):
                return True
        elif item.endswith("W"):
            wanted = int(item[:-1])
            if wanted <= last.day and day == workday(day.replace(day=wanted)):
                return True
        elif day.day in numbers(item, 1, 31):
            return True
    return False


def is_of_week(day, field):
    weekday = day.isoweekday() % 7
    for item in field.upper().split(","):
        if nth := re.fullmatch(r"(\w+)#(\d)", item):
            if number(nth[1], WEEKDAYS, 0) % 7 == weekday and (day.day + 6) // 7 == int(nth[2]):
                return True
        elif last := re.fullmatch(r"(\w+)L", item):
            month = calendar.monthrange(day.year, day.month)[1]
            if number(last[1], WEEKDAYS, 0) % 7 == weekday and day.day + 7 > month:
                return True
        elif weekday in {one % 7 for one in numbers(item, 0, 6, WEEKDAYS, 0)}:
            return True
    return False


def is_day(day, days, months, weekdays):
    if not any(day.month in numbers(item, 1, 12, MONTHS, 1) for item in months.split(",")):
        return False
    if days == "*" or weekdays == "*":
        return is_of_month(day, days) and is_of_week(day, weekdays)
    return is_of_month(day, days) or is_of_week(day, weekdays)


def masks(cron, days):
    """Which days, and which minutes of a day."""
    minutes, hours, of_month, months, of_week = cron.split()
    minutes = set().union(*(numbers(item, 0, 59) for item in minutes.split(",")))
    hours = set().union(*(numbers(item, 0, 23) for item in hours.split(",")))
    of_day = numpy.zeros(DAY, bool)
    of_day[[hour * 60 + minute for hour in hours for minute in minutes]] = True
    return numpy.array([is_day(day, of_month, months, of_week) for day in days]), of_day, len(hours) == 24


def expand_cron(zone, masks, low, gap, fold):
    day_mask, of_day, is_every_hour = masks
    gap = gap or ("SKIP" if is_every_hour else "NEXT_VALID")
    fold = fold or ("BOTH" if is_every_hour else "FIRST")
    due = day_mask[zone.day - low] & of_day[zone.minute]
    if fold == "FIRST":
        due &= ~zone.second
    elif fold == "SECOND":
        due &= ~(zone.twice & ~zone.second)
    if gap == "NEXT_VALID":
        for at, missing in zone.gaps:
            if any(day_mask[local // DAY - low] and of_day[local % DAY] for local in missing):
                due[at] = True
    minutes = numpy.flatnonzero(due) + zone.base
    return minutes[(minutes >= zone.first) & (minutes < zone.end)]


def local_point(period, day, text):
    """The local minute of a point of the period that begins on this day."""
    *words, time = text.split()
    hour, minute = map(int, time.split(":"))
    offset = 0
    if period == "WEEK":
        offset = (number(words[0], WEEKDAYS, 0) - 1) % 7
    elif period == "MONTH":
        offset = min(int(words[0]), calendar.monthrange(day.year, day.month)[1]) - 1
    return (day.toordinal() - EPOCH + offset) * DAY + hour * 60 + minute


def written(period, text):
    """A point as it is written: the day of the period, and the time."""
    *words, time = text.split()
    hour, minute = map(int, time.split(":"))
    if period == "WEEK":
        return (number(words[0], WEEKDAYS, 0) - 1) % 7, hour, minute
    return int(words[0]) if period == "MONTH" else 0, hour, minute


def expand_window(zone, days, period, after, before, fold):
    starts = {"DAY": lambda day: True, "WEEK": lambda day: day.weekday() == 0, "MONTH": lambda day: day.day == 1}
    periods = [day for day in days if starts[period](day)]
    due = []
    for day, following in zip(periods, periods[1:]):
        if not zone.first - 35 * DAY <= (day.toordinal() - EPOCH) * DAY < zone.end + DAY:
            continue
        opens = local_point(period, day, after)
        if written(period, before) <= written(period, after):
            closes = local_point(period, following, before)
        else:
            closes = local_point(period, day, before)
            if closes <= opens:  # Both are the last day of a short month.
                closes = (following.toordinal() - EPOCH) * DAY
        at, end = zone.at(opens, fold), zone.at(closes, fold)
        end = end if end > at else at + closes - opens
        due.append((at + zone.base, end + zone.base))
    due = [pair for pair in due if zone.first <= pair[0] < zone.end]
    return numpy.array(due, dtype=numpy.int64).reshape(-1)


def digest(values):
    """[how many, the sum of their mixed bits]."""
    bits = values.astype(numpy.uint64)
    bits = (bits ^ (bits >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return [len(values), str(int(numpy.sum(bits, dtype=numpy.uint64)))]


def answer(request, known):
    zone = Zone(request["zone"], request["first"], request["last"])
    low, days = zone.days()
    show = (lambda values: values.tolist()) if request.get("list") else digest
    crons = []
    for text, gap, fold in request["crons"]:
        key = text, low, len(days)
        if key not in known:
            known[key] = masks(text, days)
        crons.append(show(expand_cron(zone, known[key], low, gap, fold)))
    windows = [show(expand_window(zone, days, *window)) for window in request["windows"]]
    return {"release": version("tzdata"), "crons": crons, "windows": windows}


def main():
    assert datetime.fromtimestamp(0, timezone.utc).year == 1970
    known = {}
    with numpy.errstate(over="ignore"):
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), known)), flush=True)


main()
