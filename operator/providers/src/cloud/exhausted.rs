//! Of which sizes nothing was left lately. Pure: no I/O, no clock, no chance.
//!
//! Invariant: what is bought in one way says nothing of the other: spot machines are those that nobody else wants, and where
//! none of a size is left for them there may be enough on demand.

use std::collections::{BTreeMap, BTreeSet};

use api::node_pool::Market;
use jiff::Timestamp;

/// A size in the place of a ProviderConfig, and how it is bought.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Offer {
    namespace: String,
    config: String,
    market: Market,
    size: String,
}

/// Until when sizes are not chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exhausted {
    until: BTreeMap<Offer, Timestamp>,
}

impl Exhausted {
    /// Nothing of a size is left by a ProviderConfig (namespace and name), until then.
    pub(crate) fn hears(
        &mut self,
        (namespace, config): (&str, &str),
        market: Market,
        size: &str,
        until: Timestamp,
    ) {
        let offer = Offer {
            namespace: namespace.to_owned(),
            config: config.to_owned(),
            market,
            size: size.to_owned(),
        };
        self.until.insert(offer, until);
    }

    /// Sizes of which nothing is left.
    pub(crate) fn of(
        &mut self,
        (namespace, config): (&str, &str),
        market: Market,
        now: Timestamp,
    ) -> BTreeSet<String> {
        self.until.retain(|_, until| *until > now);
        let is_its = |offer: &&Offer| {
            offer.namespace == namespace && offer.config == config && offer.market == market
        };
        let of_it = self.until.keys().filter(is_its);
        of_it.map(|offer| offer.size.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + seconds).unwrap()
    }

    #[test]
    fn size_is_left_out_by_its_own_config_and_market_until_then() {
        let mut all = Exhausted::default();
        all.hears(("team-a", "google"), Market::Spot, "e2-medium", at(180));
        let mut of = |name: &str, market, now| {
            let found = all.of(("team-a", name), market, at(now));
            found.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of("google", Market::Spot, 0), ["e2-medium"]);
        assert_eq!(of("google", Market::OnDemand, 0), [""; 0]);
        assert_eq!(of("other", Market::Spot, 0), [""; 0]);
        assert_eq!(of("google", Market::Spot, 180), [""; 0]);
        assert!(all.until.is_empty());
    }
}
