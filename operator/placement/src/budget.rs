//! What machines cost, and what may still be spent.
//!
//! Invariant: creations are refused over the budget and nothing is ever deleted because of it; a price that
//! is not known is not 0; no currency is converted. Source: clouds.md 11.5.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Millionths of a unit of money per hour. Integers, so that a sum is the same on every machine.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Micros(pub u64);

/// The most digits before the point: 999,999,999 an hour is more than anybody has.
const DIGITS: usize = 9;
/// The digits behind the point.
const DECIMALS: usize = 6;

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum AmountError {
    /// Something else than digits and one point.
    #[error("an amount is digits, then perhaps a point and up to six digits, such as 12.50")]
    NoNumber,
    /// More than nine digits before the point or six behind it.
    #[error("an amount has up to nine digits before the point and six behind it")]
    TooLong,
}

impl FromStr for Micros {
    type Err = AmountError;

    /// Reads "12.50": no sign, no exponent, no thousands.
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (whole, part) = match text.split_once('.') {
            Some((_, "")) => return Err(AmountError::NoNumber),
            Some(both) => both,
            None => (text, ""),
        };
        if whole.len() > DIGITS || part.len() > DECIMALS {
            return Err(AmountError::TooLong);
        }
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(part) {
            return Err(AmountError::NoNumber);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| AmountError::NoNumber);
        let part = number(&format!("{part:0<DECIMALS$}"))?;
        Ok(Self(number(whole)? * 1_000_000 + part))
    }
}

impl std::fmt::Display for Micros {
    /// "12.50": at least two digits behind the point, and no more than are needed.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let part = format!("{part:06}");
        let kept = part.trim_end_matches('0').len().max(2);
        write!(f, "{whole}.{}", &part[..kept])
    }
}

/// What something costs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Price {
    /// Per hour.
    pub hourly: Micros,
    /// ISO 4217, such as `EUR`.
    pub currency: String,
}

/// What a pool may spend: `spec.placement.budget`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Per hour.
    pub hourly: Micros,
    /// The only currency that is counted.
    pub currency: String,
}

/// What is spent: every live instance, silent, deleting and leaked ones too, with disks and public
/// addresses where their prices are known.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// Sum of what has a price in the budget's currency.
    pub spent: Micros,
    /// Live instances without a price.
    pub unpriced: u32,
    /// Live instances with a price in another currency.
    pub foreign: u32,
}

/// Why a machine is not made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It would cost too much: for "12.40 of 12.50 EUR per hour are spent, one more costs 0.20".
    OverBudget {
        /// Spent already.
        spent: Micros,
        /// What it costs.
        price: Micros,
        /// The budget.
        budget: Micros,
    },
    /// It has no price: one below `prices` of the ProviderConfig helps.
    NoPrice,
    /// Its price is in this currency; nothing is converted.
    OtherCurrency(String),
    /// So many that live have no price in the currency of the budget, so nobody knows what is spent.
    SumUnknown {
        /// How many.
        count: u32,
    },
}

impl Budget {
    /// Adds up. An item is what one live instance costs with all that belongs to it; none where that is
    /// not known.
    #[must_use]
    pub fn account<'a>(&self, items: impl IntoIterator<Item = Option<&'a Price>>) -> Account {
        let mut account = Account::default();
        for item in items {
            match item {
                None => account.unpriced = account.unpriced.saturating_add(1),
                Some(price) if price.currency != self.currency => {
                    account.foreign = account.foreign.saturating_add(1);
                }
                Some(price) => {
                    account.spent.0 = account.spent.0.saturating_add(price.hourly.0);
                }
            }
        }
        account
    }

    /// Whether one more may be made, and if so adds it: the next one is asked about with this one counted.
    ///
    /// # Errors
    /// [`Refusal`]: it would be over the budget, or nobody can tell.
    pub fn admit(&self, account: &mut Account, price: Option<&Price>) -> Result<(), Refusal> {
        let price = self.check(account, price)?;
        account.spent.0 = account.spent.0.saturating_add(price.0);
        Ok(())
    }

    /// How many of this price may be made: the cap that the budget is to a location. 0 where
    /// [`Budget::admit`] would refuse the first.
    #[must_use]
    pub fn affordable(&self, account: &Account, price: Option<&Price>) -> u32 {
        let Ok(price) = self.check(account, price) else {
            return 0;
        };
        let left = self.hourly.0.saturating_sub(account.spent.0);
        let number = left.checked_div(price.0);
        number.map_or(u32::MAX, |n| u32::try_from(n).unwrap_or(u32::MAX))
    }

    fn check(&self, account: &Account, price: Option<&Price>) -> Result<Micros, Refusal> {
        let price = price.ok_or(Refusal::NoPrice)?;
        if price.currency != self.currency {
            return Err(Refusal::OtherCurrency(price.currency.clone()));
        }
        let count = account.unpriced.saturating_add(account.foreign);
        if count > 0 {
            return Err(Refusal::SumUnknown { count });
        }
        if account.spent.0.saturating_add(price.hourly.0) > self.hourly.0 {
            return Err(Refusal::OverBudget {
                spent: account.spent,
                price: price.hourly,
                budget: self.hourly,
            });
        }
        Ok(price.hourly)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn euro(micros: u64) -> Price {
        Price {
            hourly: Micros(micros),
            currency: "EUR".to_owned(),
        }
    }

    fn budget(micros: u64) -> Budget {
        Budget {
            hourly: Micros(micros),
            currency: "EUR".to_owned(),
        }
    }

    #[test]
    fn amounts_are_read_exactly_or_refused() {
        assert_eq!("12.50".parse(), Ok(Micros(12_500_000)));
        assert_eq!("0.000001".parse(), Ok(Micros(1)));
        assert_eq!("7".parse(), Ok(Micros(7_000_000)));
        for text in [
            "", ".", ".5", "5.", "-1", "+1", "1e3", "1,5", " 1", "1.2.3", "١",
        ] {
            assert_eq!(
                text.parse::<Micros>(),
                Err(AmountError::NoNumber),
                "{text:?}"
            );
        }
        for text in ["1234567890", "1.0000001"] {
            assert_eq!(
                text.parse::<Micros>(),
                Err(AmountError::TooLong),
                "{text:?}"
            );
        }
        let shown: Vec<_> = [12_500_000, 1, 0, 120_000]
            .map(|n| Micros(n).to_string())
            .into();
        assert_eq!(shown, ["12.50", "0.000001", "0.00", "0.12"]);
    }

    #[test]
    fn what_has_no_price_is_not_free() {
        let budget = budget(10);
        let account = budget.account([Some(&euro(4)), Some(&euro(4))]);
        assert_eq!(budget.check(&account, None), Err(Refusal::NoPrice));
        assert_eq!(budget.affordable(&account, None), 0);
        let live = budget.account([Some(&euro(4)), None]);
        let refused = budget.check(&live, Some(&euro(1)));
        assert_eq!(refused, Err(Refusal::SumUnknown { count: 1 }));
        let dollar = Price {
            currency: "USD".to_owned(),
            ..euro(1)
        };
        let refused = budget.check(&account, Some(&dollar));
        assert_eq!(refused, Err(Refusal::OtherCurrency("USD".to_owned())));
    }

    #[test]
    fn the_refusal_says_the_sum() {
        let budget = budget(10);
        let account = budget.account([Some(&euro(8))]);
        let refused = budget.check(&account, Some(&euro(3)));
        let (spent, price, budget) = (Micros(8), Micros(3), Micros(10));
        let expected = Refusal::OverBudget {
            spent,
            price,
            budget,
        };
        assert_eq!(refused, Err(expected));
    }

    proptest! {
        #[test]
        fn amounts_survive_being_shown(n in 0..999_999_999_999_999_u64) {
            prop_assert_eq!(Micros(n).to_string().parse(), Ok(Micros(n)));
        }

        #[test]
        fn what_is_affordable_is_admitted_and_one_more_is_not(
            hourly in 0..1000_u64, spent in 0..1500_u64, price in 1..50_u64,
        ) {
            let budget = budget(hourly);
            let mut account = budget.account([Some(&euro(spent))]);
            for _ in 0..budget.affordable(&account, Some(&euro(price))) {
                prop_assert!(budget.admit(&mut account, Some(&euro(price))).is_ok());
                prop_assert!(account.spent <= budget.hourly);
            }
            prop_assert!(budget.admit(&mut account, Some(&euro(price))).is_err());
        }
    }
}
