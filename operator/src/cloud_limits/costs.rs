//! What machines cost, as a plan of a node pool with a budget may know it. No I/O, no clock, no chance.
//!
//! Invariant: what nobody knows is not free, and of several sizes the dearest counts, so that no choice among them can cost
//! more than was allowed.

use std::collections::BTreeMap;

use placement::budget::{Micros, Price};

use super::plan::Money;

/// What machines of a pool cost.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Costs {
    /// Of each Machine, by its name; who is missing has no cost that is known.
    pub machines: BTreeMap<String, Cost>,
    /// Of one more in each location, by the name that the status calls it.
    pub next: BTreeMap<String, Cost>,
}

/// What one costs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cost {
    /// Nobody bills it by the hour.
    NotBilled,
    /// Nobody knows.
    Unknown,
    /// This much.
    Known(Price),
}

impl Cost {
    /// Of one machine of one of these sizes: that of the dearest. `currency`: in which prices are.
    #[must_use]
    pub fn dearest<'a>(
        sizes: impl Iterator<Item = &'a String>,
        prices: &BTreeMap<String, Money>,
        currency: Option<&str>,
    ) -> Self {
        let prices: Option<Vec<Money>> = sizes.map(|size| prices.get(size).copied()).collect();
        let most = prices.and_then(|prices| prices.into_iter().max());
        match (most, currency) {
            (Some(most), Some(currency)) => Self::Known(Price {
                hourly: Micros(most.millionths()),
                currency: currency.to_owned(),
            }),
            _ => Self::Unknown,
        }
    }

    /// What is billed: none where that is nothing; nobody knows what in the second place.
    #[must_use]
    pub fn billed(&self) -> Option<Option<&Price>> {
        match self {
            Self::NotBilled => None,
            Self::Unknown => Some(None),
            Self::Known(price) => Some(Some(price)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dearest_size_counts_and_one_without_a_price_makes_it_unknown() {
        let money = |text: &str| Money::read(text).unwrap();
        let prices = BTreeMap::from([
            ("small".to_owned(), money("0.10")),
            ("large".to_owned(), money("0.25")),
        ]);
        let of = |sizes: &[&str], currency| {
            let sizes: Vec<_> = sizes.iter().map(|size| (*size).to_owned()).collect();
            Cost::dearest(sizes.iter(), &prices, currency)
        };
        let dear = Price {
            hourly: Micros(250_000),
            currency: "EUR".to_owned(),
        };
        assert_eq!(of(&["small", "large"], Some("EUR")), Cost::Known(dear));
        assert_eq!(of(&["small", "huge"], Some("EUR")), Cost::Unknown);
        assert_eq!(of(&["small"], None), Cost::Unknown);
        assert_eq!(of(&[], Some("EUR")), Cost::Unknown);
    }
}
