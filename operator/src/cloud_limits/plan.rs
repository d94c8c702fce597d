//! Limits of a ProviderConfig against what Machines take. No I/O, no clock, no chance.
//!
//! Invariant: what has no price is not free: under a bound of money it is refused, and told. Amounts are whole millionths,
//! so that sums are exact.

use std::collections::BTreeMap;
use std::fmt;

use api::{ConditionStatus, Reason};

/// Millionths of one unit of a currency.
const MILLIONTHS: u64 = 1_000_000;

/// An amount of money, in millionths of the currency of an account.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Money(u64);

impl Money {
    /// `12.5`, with at most six digits behind the point; none where it is no such amount.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() > 6 || !are_digits(whole) || !are_digits(part) {
            return None;
        }
        let part: u64 = format!("{part:0<6}").parse().ok()?;
        let whole: u64 = whole.parse().ok()?;
        Some(Self(whole.checked_mul(MILLIONTHS)?.checked_add(part)?))
    }

    /// As a provider has it, rounded; none where it is no amount.
    #[must_use]
    pub fn of(price: f64) -> Option<Self> {
        if !price.is_finite() || !(0.0..1e9).contains(&price) {
            return None;
        }
        Self::read(&format!("{price:.6}"))
    }

    /// The amount.
    #[must_use]
    pub fn millionths(self) -> u64 {
        self.0
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / MILLIONTHS, self.0 % MILLIONTHS);
        let part = format!("{part:06}");
        let part = part.trim_end_matches('0');
        write!(f, "{whole}.{part:0<2}")
    }
}

/// What may be taken; none: there is no such bound.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    /// Machines.
    pub machines: Option<usize>,
    /// What they cost in an hour.
    pub hourly: Option<Money>,
}

/// Machines for which something was asked, by UID, with their sizes; none of a size that nobody knows.
pub type Taken = BTreeMap<String, Option<String>>;

/// Which limit keeps a Machine from being made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reached {
    /// There are as many as there may be.
    Machines {
        /// So many there are.
        taken: usize,
        /// So many there may be.
        most: usize,
    },
    /// With it they would cost too much.
    Hourly {
        /// What they cost.
        taken: Money,
        /// What it costs.
        more: Money,
        /// What they may.
        most: Money,
    },
    /// Nobody knows what a size costs.
    Price {
        /// The size.
        size: String,
    },
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machines { taken, most } => {
                write!(f, "there are {taken} machines, and {most} may be")
            }
            Self::Hourly { taken, more, most } => write!(
                f,
                "machines cost {taken} an hour, one more costs {more}, and {most} is allowed"
            ),
            Self::Price { size } => {
                write!(
                    f,
                    "what an hour of {size} costs is not known, and there is a limit"
                )
            }
        }
    }
}

impl Reached {
    /// What to change.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Machines { .. } => {
                "raise spec.limits.machines of the ProviderConfig, or lower spec.replicas of node pools that name it"
            }
            Self::Hourly { .. } => {
                "raise spec.limits.hourly of the ProviderConfig, or lower spec.replicas of node pools that name it"
            }
            Self::Price { .. } => {
                "put the price of that size into spec.prices of the ProviderConfig, or take spec.limits.hourly off"
            }
        }
    }
}

/// Whether one more Machine of a size may be made. `taken`: all others.
///
/// # Errors
/// Which limit is reached.
pub fn admit(
    limits: &Limits,
    taken: &Taken,
    size: Option<&str>,
    prices: &BTreeMap<String, Money>,
) -> Result<(), Reached> {
    if let Some(most) = limits.machines
        && taken.len() >= most
    {
        let taken = taken.len();
        return Err(Reached::Machines { taken, most });
    }
    let Some(most) = limits.hourly else {
        return Ok(());
    };
    let price = |size: Option<&str>| {
        let size = size.unwrap_or("an unknown size");
        let unknown = || Reached::Price {
            size: size.to_owned(),
        };
        prices.get(size).copied().ok_or_else(unknown)
    };
    let more = price(size)?;
    let mut sum = Money::default();
    for size in taken.values() {
        sum = sum.plus(price(size.as_deref())?);
    }
    match sum.plus(more) > most {
        true => Err(Reached::Hourly {
            taken: sum,
            more,
            most,
        }),
        false => Ok(()),
    }
}

/// What the condition `Budget` says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Its status.
    pub value: ConditionStatus,
    /// Its reason.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

/// What is said. `waiting`: sizes of Machines for which nothing was asked yet.
#[must_use]
pub fn budget(
    limits: &Limits,
    taken: &Taken,
    waiting: &[Option<String>],
    prices: &BTreeMap<String, Money>,
) -> Budget {
    let asked = waiting
        .iter()
        .map(|size| admit(limits, taken, size.as_deref(), prices));
    let reached: Vec<Reached> = asked.filter_map(Result::err).collect();
    let Some(first) = reached.first() else {
        return Budget {
            value: ConditionStatus::True,
            reason: Reason::WithinLimits,
            // No numbers: each Machine that comes or goes would cost a write.
            message: String::new(),
        };
    };
    Budget {
        value: ConditionStatus::False,
        reason: match first {
            Reached::Price { .. } => Reason::PriceUnknown,
            Reached::Machines { .. } | Reached::Hourly { .. } => Reason::LimitReached,
        },
        message: format!(
            "{first}, so that Machines wait; {}; nothing is deleted because of it",
            first.remedy()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(text: &str) -> Money {
        Money::read(text).unwrap()
    }

    fn taken(count: usize) -> Taken {
        let one = |number| (format!("m{number}"), Some("cx22".to_owned()));
        (0..count).map(one).collect()
    }

    fn prices() -> BTreeMap<String, Money> {
        [("cx22", "0.0052"), ("cx32", "0.01")]
            .map(|(size, price)| (size.to_owned(), money(price)))
            .into()
    }

    #[test]
    fn amounts_are_read_and_written_exactly_or_not_at_all() {
        for (text, shown) in [
            ("0", "0.00"),
            ("12.5", "12.50"),
            ("0.0052", "0.0052"),
            ("99999999.999999", "99999999.999999"),
        ] {
            assert_eq!(money(text).to_string(), shown);
        }
        for wrong in [
            "",
            ".5",
            "1.0000001",
            "-1",
            "1e3",
            "1,5",
            "٣",
            "18446744073709551615",
        ] {
            assert_eq!(Money::read(wrong), None, "{wrong}");
        }
        assert_eq!(Money::of(0.0052), Some(money("0.0052")));
        for wrong in [f64::NAN, f64::INFINITY, -0.5, 1e12] {
            assert_eq!(Money::of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn without_a_limit_everything_is_let() {
        let none = Limits::default();
        assert_eq!(admit(&none, &taken(1_000), None, &BTreeMap::new()), Ok(()));
    }

    #[test]
    fn one_machine_more_than_may_be_is_refused_and_the_last_one_is_not() {
        let limits = Limits {
            machines: Some(3),
            hourly: None,
        };
        let asked = |count| admit(&limits, &taken(count), Some("cx22"), &BTreeMap::new());
        assert_eq!(asked(2), Ok(()));
        let told = asked(3).unwrap_err();
        assert_eq!(told, Reached::Machines { taken: 3, most: 3 });
        assert!(told.remedy().contains("spec.limits.machines"));
        assert!(asked(9).is_err(), "it was lowered");
    }

    #[test]
    fn sum_may_be_reached_and_not_passed() {
        let limits = Limits {
            machines: None,
            hourly: Some(money("0.0204")),
        };
        let asked = |count, size| admit(&limits, &taken(count), Some(size), &prices());
        assert_eq!(asked(2, "cx32"), Ok(()), "0.0204 to the millionth");
        let told = asked(3, "cx22").unwrap_err().to_string();
        assert_eq!(
            told,
            "machines cost 0.0156 an hour, one more costs 0.0052, and 0.0204 is allowed"
        );
    }

    #[test]
    fn what_has_no_price_is_refused_under_a_bound_of_money_and_told() {
        let limits = Limits {
            machines: None,
            hourly: Some(money("100")),
        };
        let told = admit(&limits, &taken(0), Some("ccx13"), &prices()).unwrap_err();
        assert!(told.to_string().contains("ccx13"));
        assert!(told.remedy().contains("spec.prices"));
        // What is there counts, too.
        let there = [("m".to_owned(), None)].into();
        assert!(admit(&limits, &there, Some("cx22"), &prices()).is_err());
    }

    #[test]
    fn budget_is_false_only_while_a_machine_waits_for_it() {
        let limits = Limits {
            machines: Some(3),
            hourly: None,
        };
        let waits = [Some("cx22".to_owned())];
        let said =
            |count, waiting: &[Option<String>]| budget(&limits, &taken(count), waiting, &prices());
        assert_eq!(said(3, &[]).reason, Reason::WithinLimits, "it is full");
        assert_eq!(said(2, &waits).reason, Reason::WithinLimits);
        let full = said(3, &waits);
        assert_eq!(full.value, ConditionStatus::False);
        assert_eq!(full.reason, Reason::LimitReached);
        assert!(full.message.contains("there are 3 machines, and 3 may be"));
    }
}
