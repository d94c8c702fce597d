//! Limits of what one tenant cluster has in the management cluster: how much that is, and which of the
//! tenant's Services it is given to.
//!
//! Who has a load balancer keeps it, also once a limit is lowered; what is left goes to the oldest. A mirror
//! takes, besides an object and an address, a node port of the management cluster for each of its ports, of
//! which there are 2768 for all tenant clusters together.
//! Invariant: pure; what is given away never exceeds a limit that was not exceeded before, and who was refused
//! once is refused until somebody gives something back.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// The most that one tenant cluster has in the management cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Load balancers. Default: 500.
    pub services: usize,
    /// Ports of all load balancers together. Default: 1000.
    pub ports: usize,
    /// Endpoints of one load balancer and family of addresses. Default: 250.
    pub endpoints: usize,
}

/// Default of [`Limits::services`]: with [`MAX_ENDPOINTS`] and about 200 bytes for each endpoint at most 25 MB of
/// the management cluster's etcd, which has 2 GiB by default.
pub const MAX_SERVICES: usize = 500;
/// Default of [`Limits::ports`]: two of each load balancer, HTTP and HTTPS, and not all node ports that a
/// management cluster has.
pub const MAX_PORTS: usize = 1000;
/// Default of [`Limits::endpoints`]: as many nodes as GKE's load balancers have at most, too. More make
/// nothing more available, but each is written for each Service.
pub const MAX_ENDPOINTS: usize = 250;

impl Default for Limits {
    fn default() -> Self {
        Self {
            services: MAX_SERVICES,
            ports: MAX_PORTS,
            endpoints: MAX_ENDPOINTS,
        }
    }
}

/// Which limit a Service is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// There are as many load balancers as there may be.
    Services,
    /// There are not so many ports left.
    Ports,
}

/// What is given away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Load balancers.
    pub services: usize,
    /// Their ports.
    pub ports: usize,
}

/// A Service that wants more than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asking<'a> {
    /// When it was made; the oldest comes first.
    pub created: Option<Timestamp>,
    /// metadata.uid, which decides between two of one second.
    pub uid: &'a str,
    /// It has no load balancer yet.
    pub new: bool,
    /// As many ports more.
    pub ports: usize,
}

/// Who was given a place within the limits, and who waits for one.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// By UID of the tenant's Service: as many ports, until there is a mirror with them.
    pub given: BTreeMap<String, usize>,
    /// UIDs of those that are over a limit.
    pub waiting: BTreeSet<String>,
    /// UIDs of those whose mirror was written, and nobody answered: it may be there, as large as what was given.
    pub doubted: BTreeSet<String>,
}

/// What is not taken yet. Who asks first has it; one that does not fit stops no later one that does.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    taken: Taken,
    limits: Limits,
}

impl Capacity {
    /// What these leave of the limits.
    #[must_use]
    pub const fn new(taken: Taken, limits: Limits) -> Self {
        Self { taken, limits }
    }

    /// Which limit this one is over; none when there is room for it.
    #[must_use]
    pub const fn refuses(&self, asking: &Asking<'_>) -> Option<Over> {
        let Self { taken, limits } = self;
        if asking.new && taken.services >= limits.services {
            Some(Over::Services)
        } else if taken.ports.saturating_add(asking.ports) > limits.ports {
            Some(Over::Ports)
        } else {
            None
        }
    }

    /// Gives this one what it asks for, unless that is over a limit: this one.
    pub fn give(&mut self, asking: &Asking<'_>) -> Option<Over> {
        let over = self.refuses(asking);
        if over.is_none() {
            self.taken.services += usize::from(asking.new);
            self.taken.ports += asking.ports;
        }
        over
    }

    /// Whether there is room for nobody who has nothing: such a one wants a load balancer with a port at least.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.taken.services >= self.limits.services || self.taken.ports >= self.limits.ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        services: 2,
        ports: 10,
        endpoints: 1,
    };

    /// Which of those who ask are over a limit.
    fn over<'a>(
        taken: Taken,
        mut asking: Vec<Asking<'a>>,
        limits: &Limits,
    ) -> BTreeMap<&'a str, Over> {
        asking.sort_unstable();
        let mut room = Capacity::new(taken, *limits);
        let turns = asking.iter();
        turns
            .filter_map(|turn| Some((turn.uid, room.give(turn)?)))
            .collect()
    }

    fn at(second: i64, uid: &str, new: bool, ports: usize) -> Asking<'_> {
        Asking {
            created: Timestamp::from_second(second).ok(),
            uid,
            new,
            ports,
        }
    }

    #[test]
    fn the_oldest_come_first_and_one_that_does_not_fit_stops_no_other() {
        let asking = vec![
            at(3, "younger", true, 1),
            at(1, "large", true, 11),
            at(2, "b", true, 1),
            at(2, "a", true, 1),
        ];
        let over = over(Taken::default(), asking, &LIMITS);
        let expected = [("large", Over::Ports), ("younger", Over::Services)];
        assert_eq!(over, expected.into());
    }

    #[test]
    fn who_has_a_load_balancer_may_have_more_ports_where_no_other_can_be_had() {
        let taken = Taken {
            services: 5,
            ports: 8,
        };
        let asking = vec![
            at(1, "has", false, 2),
            at(2, "has not", true, 0),
            at(3, "wants too much", false, 1),
        ];
        let over = over(taken, asking, &LIMITS);
        let expected = [("has not", Over::Services), ("wants too much", Over::Ports)];
        assert_eq!(over, expected.into());
    }

    proptest! {
        #[test]
        fn nothing_beyond_a_limit_is_given_and_nothing_within_it_is_refused(
            has in (0..6_usize, 0..30_usize),
            limits in (0..6_usize, 0..30_usize),
            asking in prop::collection::vec((0..4_i64, any::<bool>(), 0..9_usize), 0..12),
        ) {
            let limits = Limits { services: limits.0, ports: limits.1, endpoints: 1 };
            let taken = Taken { services: has.0, ports: has.1 };
            let uids: Vec<_> = (0..asking.len()).map(|number| format!("{number:02}")).collect();
            let all: Vec<_> = asking
                .iter()
                .zip(&uids)
                .map(|((second, new, ports), uid)| at(*second, uid, *new, *ports))
                .collect();
            let over = over(taken, all.clone(), &limits);
            let (mut room, mut turns) = (Capacity::new(taken, limits), all.clone());
            turns.sort_unstable();
            for turn in &turns {
                let closed = room.is_closed();
                let given = room.give(turn).is_none();
                prop_assert!(!closed || !turn.new || turn.ports == 0 || !given, "{turn:?} is new");
            }
            let refused = all.iter().filter(|one| over.contains_key(one.uid));
            prop_assert!(refused.clone().all(|one| room.refuses(one).is_some()), "for good");
            let mut given = taken;
            for one in all.iter().filter(|one| !over.contains_key(one.uid)) {
                given.services += usize::from(one.new);
                given.ports += one.ports;
            }
            prop_assert!(given.services <= limits.services.max(taken.services));
            prop_assert!(given.ports <= limits.ports.max(taken.ports));
            // Whoever was refused does not fit beside those who come first and got what they wanted.
            for refused in all.iter().filter(|one| over.contains_key(one.uid)) {
                let mut before = taken;
                for one in all.iter().filter(|one| *one < refused && !over.contains_key(one.uid)) {
                    before.services += usize::from(one.new);
                    before.ports += one.ports;
                }
                prop_assert!(
                    (refused.new && before.services >= limits.services)
                        || before.ports + refused.ports > limits.ports
                );
            }
        }
    }
}
