//! What the budget of a pool leaves, and what is said where it is reached.
//!
//! Invariant: creations are refused over the budget and nothing is ever deleted because of it; what is made in one step is
//! counted together, so that two locations do not spend the same; what nobody knows is not free.

use std::collections::BTreeMap;

use api::{ConditionStatus, ConditionType, NodePool, Reason, remove_condition};
use jiff::Timestamp;
use placement::budget::{Account, Budget, Price, Refusal};
use placement::targets::Cap;

use super::Plan;
use super::sizing::{Sizing, Spread};
use super::status::{Said, set};
use crate::cloud_limits::costs::Cost;
use crate::controllers::node_pool::observed::Observed;

/// What may be spent, and what is.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    budget: Budget,
    account: Account,
    next: BTreeMap<String, Cost>,
    /// Why one is not made, and where; the first one alone.
    refused: Option<(String, Refusal)>,
}

/// None where the pool has no budget. One that cannot be read lets nothing be made.
pub(super) fn purse(observed: &Observed) -> Option<Purse> {
    let budget = budget(&observed.pool)?;
    let unknown = Cost::Unknown;
    let costs = observed.owned().map(|machine| {
        let name = machine.metadata.name.as_deref().unwrap_or_default();
        observed.costs.machines.get(name).unwrap_or(&unknown)
    });
    let billed: Vec<Option<&Price>> = costs.filter_map(Cost::billed).collect();
    let account = budget.account(billed);
    Some(Purse {
        budget,
        account,
        next: observed.costs.next.clone(),
        refused: None,
    })
}

fn budget(pool: &NodePool) -> Option<Budget> {
    let wanted = pool.spec.placement.budget.as_ref()?;
    Some(Budget {
        // The schema keeps out what is no amount.
        hourly: wanted.hourly.parse().unwrap_or_default(),
        currency: wanted.currency.clone(),
    })
}

impl Purse {
    /// What it is to each location: so many machines more.
    pub(super) fn cap(&self, spread: &mut Spread) {
        for location in &mut spread.locations {
            let cost = self.next.get(&location.name).unwrap_or(&Cost::Unknown);
            let price = cost.billed();
            location.headroom.budget =
                price.map(|price| self.budget.affordable(&self.account, price));
        }
    }

    /// Leaves out what all of them together would cost too much.
    pub(super) fn cut(&mut self, sizing: &mut Sizing) {
        let mut made = Vec::new();
        for location in std::mem::take(&mut sizing.create) {
            if self.admits(&location) {
                made.push(location);
            }
        }
        sizing.for_lost = sizing.for_lost.min(made.len());
        sizing.moves &= !made.is_empty();
        sizing.create = made;
        let wants =
            |(location, cap): (&String, &Cap)| (*cap == Cap::Budget).then(|| location.clone());
        if sizing.targets.missing > 0 {
            for location in sizing.targets.capped.iter().filter_map(wants) {
                // To say why: nothing is made of it.
                self.says_why(&location);
            }
        }
    }

    fn admits(&mut self, location: &str) -> bool {
        let cost = self.next.get(location).unwrap_or(&Cost::Unknown);
        let Some(price) = cost.billed() else {
            return true;
        };
        match self.budget.admit(&mut self.account, price) {
            Ok(()) => true,
            Err(refusal) => {
                self.refused.get_or_insert((location.to_owned(), refusal));
                false
            }
        }
    }

    fn says_why(&mut self, location: &str) {
        let cost = self.next.get(location).unwrap_or(&Cost::Unknown);
        let mut account = self.account.clone();
        if let Some(price) = cost.billed()
            && let Err(refusal) = self.budget.admit(&mut account, price)
        {
            self.refused.get_or_insert((location.to_owned(), refusal));
        }
    }

    fn said(&self) -> Said {
        let type_ = ConditionType::Budget;
        let Some((location, refusal)) = &self.refused else {
            // No numbers: each machine that comes or goes would cost a write.
            return (
                type_,
                ConditionStatus::True,
                Reason::WithinLimits,
                String::new(),
            );
        };
        let currency = &self.budget.currency;
        let (reason, why, mend) = match refusal {
            Refusal::OverBudget {
                spent,
                price,
                budget,
            } => (
                Reason::LimitReached,
                format!(
                    "machines cost {spent} {currency} an hour, one more in location {location} costs {price}, and {budget} is allowed"
                ),
                "raise spec.placement.budget.hourly, or lower spec.replicas",
            ),
            Refusal::NoPrice => (
                Reason::PriceUnknown,
                format!(
                    "what an hour of each type of location {location} costs is not known, or not in which currency"
                ),
                "set spec.currency of its ProviderConfig, and the prices of those types in spec.prices there",
            ),
            Refusal::OtherCurrency(other) => (
                Reason::PriceUnknown,
                format!(
                    "location {location} costs {other}, the budget is of {currency}, and nothing is converted"
                ),
                "make a node pool for each currency",
            ),
            Refusal::SumUnknown { count } => (
                Reason::PriceUnknown,
                format!(
                    "what {count} of its machines cost in {currency} is not known, so nobody knows what is left"
                ),
                "set spec.currency of their ProviderConfig, and the prices of their types in spec.prices there",
            ),
        };
        let message = format!(
            "{why}, so that machines are not made; {mend}; nothing is deleted because of it"
        );
        (type_, ConditionStatus::False, reason, message)
    }
}

/// Says it in the condition.
pub(super) fn say(plan: &mut Plan, observed: &Observed, purse: Option<&Purse>, now: Timestamp) {
    match purse {
        Some(purse) => set(plan, observed, now, [purse.said()]),
        None => remove_condition(&mut plan.status.conditions, ConditionType::Budget),
    }
}
