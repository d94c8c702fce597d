//! What `spec.controlPlane.profile` means: requests, limits of memory, flags and what Go's runtime is told, of the four
//! programs that a control plane has.
//!
//! `Standard` is what the platform says (`config.resources`, `config.memoryLimits`). `Small` never asks for more than
//! that and `Large` never for less, whatever the platform says. Figures are of docs/benchmarks.md; what was tried and
//! left out is in docs/adr/0026.
//! Invariant: a table. What a user says of a program (`resources`, `extraArgs`) goes before it, and a change of it shows in
//! the hash of templates ([`crate::rollout::revision`]).

use std::collections::BTreeMap;

use api::tenant_cluster::Profile;
use k8s_openapi::api::core::v1::EnvVar;

use crate::flags::Program;
use crate::settings::{DefaultResources, MemoryLimits};
use crate::validate::quantity::nanos;

/// A program of Go's whose runtime is told something.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Runtime {
    ApiServer,
    ControllerManager,
    Scheduler,
    Etcd,
}

/// Processor time and memory, as Kubernetes writes them.
type Amounts = (&'static str, &'static str);

/// What one profile asks for, and bounds.
struct Size {
    api_server: Amounts,
    controller_manager: Amounts,
    scheduler: Amounts,
    etcd: Amounts,
    /// Limits of memory, in the same order.
    most: [&'static str; 4],
}

/// Some more than each takes at rest with the settings of [`environment`].
const SMALL: Size = Size {
    api_server: ("25m", "208Mi"),
    controller_manager: ("8m", "48Mi"),
    scheduler: ("3m", "32Mi"),
    etcd: ("15m", "56Mi"),
    // What runs wild ends sooner, and takes less of its node with it.
    most: ["2Gi", "1Gi", "512Mi", "2Gi"],
};

/// A starting point for fifty nodes and more, not measured.
const LARGE: Size = Size {
    api_server: ("1000m", "4Gi"),
    controller_manager: ("250m", "512Mi"),
    scheduler: ("100m", "256Mi"),
    etcd: ("500m", "1Gi"),
    most: ["16Gi", "8Gi", "4Gi", "16Gi"],
};

/// Requests of programs whose TenantCluster names none.
pub(crate) fn requests(profile: Profile, platform: &DefaultResources) -> DefaultResources {
    let Some((size, is_better)) = size(profile) else {
        return platform.clone();
    };
    let of = |platform: &BTreeMap<String, String>, (cpu, memory): Amounts| {
        let mut amounts = platform.clone();
        for (name, amount) in [("cpu", cpu), ("memory", memory)] {
            let said = platform.get(name);
            // What the platform leaves out is less than anything.
            if is_better(nanos(amount), said.and_then(|said| nanos(said))) {
                amounts.insert(name.to_owned(), amount.to_owned());
            }
        }
        amounts
    };
    DefaultResources {
        api_server: of(&platform.api_server, size.api_server),
        controller_manager: of(&platform.controller_manager, size.controller_manager),
        scheduler: of(&platform.scheduler, size.scheduler),
        etcd: of(&platform.etcd, size.etcd),
        ..platform.clone()
    }
}

/// Limits of memory of programs whose TenantCluster names none. Where the platform has none (`0`), there is none.
pub(crate) fn memory_limits(profile: Profile, platform: &MemoryLimits) -> MemoryLimits {
    let Some((size, is_better)) = size(profile) else {
        return platform.clone();
    };
    let of = |platform: &String, amount: &str| match nanos(platform) {
        said @ Some(1..) if is_better(nanos(amount), said) => amount.to_owned(),
        _ => platform.clone(),
    };
    let [api_server, controller_manager, scheduler, etcd] = size.most;
    MemoryLimits {
        api_server: of(&platform.api_server, api_server),
        controller_manager: of(&platform.controller_manager, controller_manager),
        scheduler: of(&platform.scheduler, scheduler),
        etcd: of(&platform.etcd, etcd),
        konnectivity: platform.konnectivity.clone(),
    }
}

/// Whether the first of two amounts is to stand in the place of the second.
type IsBetter = fn(Option<i128>, Option<i128>) -> bool;

fn size(profile: Profile) -> Option<(&'static Size, IsBetter)> {
    match profile {
        Profile::Small => Some((&SMALL, |of_table, said| of_table < said)),
        Profile::Standard => None,
        Profile::Large => Some((&LARGE, |of_table, said| of_table > said)),
    }
}

/// Flags of a program that a user may change, and has not.
pub(crate) fn flags(
    profile: Profile,
    program: Program,
    extra: &BTreeMap<String, String>,
) -> Vec<(&'static str, String)> {
    let flags = table(profile, program).iter();
    let flags = flags.filter(|(name, _)| !extra.contains_key(*name));
    flags
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

fn table(profile: Profile, program: Program) -> &'static [(&'static str, &'static str)] {
    match (profile, program) {
        // What is served at a time is what memory is needed for. Half of Kubernetes' own.
        (Profile::Small, Program::ApiServer) => &[
            ("max-mutating-requests-inflight", "100"),
            ("max-requests-inflight", "200"),
        ],
        // Twice Kubernetes' own.
        (Profile::Large, Program::ApiServer) => &[
            ("max-mutating-requests-inflight", "400"),
            ("max-requests-inflight", "800"),
        ],
        // Kubernetes' own are 20 and 30 requests a second, with which a rollout of a thousand pods takes minutes.
        (Profile::Large, Program::ControllerManager) => {
            &[("kube-api-burst", "150"), ("kube-api-qps", "100")]
        }
        // 50 and 100: pods that are placed in a second.
        (Profile::Large, Program::Scheduler) => {
            &[("kube-api-burst", "400"), ("kube-api-qps", "200")]
        }
        _ => &[],
    }
}

/// What Go's runtime is told of threads and of collecting garbage.
#[derive(Clone, Copy, Debug, Default)]
struct Go {
    /// Threads that run at a time (`GOMAXPROCS`); none: one for each core of the node, or what a limit of
    /// processor time says (Go 1.25, Kubernetes 1.35). What rests spends more on waking threads than on its work
    /// (docs/benchmarks.md).
    threads: Option<u32>,
    /// How much memory may grow between two collections, in percent of what is in use (`GOGC`); none: 100.
    percent: Option<u32>,
}

fn go(profile: Profile, runtime: Runtime) -> Go {
    use Runtime::{ApiServer, ControllerManager, Etcd, Scheduler};
    match (profile, runtime) {
        (Profile::Small, ApiServer | ControllerManager | Scheduler | Etcd) => Go {
            threads: Some(1),
            percent: Some(50),
        },
        // A busy tenant cluster needs more than one thread of these two.
        (Profile::Standard, ApiServer | Etcd) => Go::default(),
        (Profile::Standard, ControllerManager | Scheduler) => Go {
            threads: Some(1),
            percent: None,
        },
        (Profile::Large, _) => Go::default(),
    }
}

/// Variables of a program's container. Whose user limits its processor time reads threads from that.
pub(crate) fn environment(
    profile: Profile,
    runtime: Runtime,
    limits: &BTreeMap<String, String>,
) -> Vec<EnvVar> {
    let go = go(profile, runtime);
    let threads = go.threads.filter(|_| !limits.contains_key("cpu"));
    let variable = |name: &str, value: Option<u32>| {
        value.map(|value| EnvVar {
            name: name.to_owned(),
            value: Some(value.to_string()),
            ..EnvVar::default()
        })
    };
    [
        variable("GOGC", go.percent),
        variable("GOMAXPROCS", threads),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::allowed_since;
    use crate::settings::Settings;

    fn amount(amounts: &BTreeMap<String, String>, name: &str) -> i128 {
        amounts.get(name).and_then(|text| nanos(text)).unwrap_or(0)
    }

    fn four(all: &DefaultResources) -> [&BTreeMap<String, String>; 4] {
        [
            &all.api_server,
            &all.controller_manager,
            &all.scheduler,
            &all.etcd,
        ]
    }

    #[test]
    fn standard_is_what_the_platform_says() {
        let settings = Settings::default();
        let (requests, limits) = (
            requests(Profile::Standard, &settings.resources),
            memory_limits(Profile::Standard, &settings.memory_limits),
        );
        assert_eq!(requests, settings.resources);
        assert_eq!(limits, settings.memory_limits);
        for program in Program::ALL {
            assert!(flags(Profile::Standard, program, &BTreeMap::new()).is_empty());
        }
    }

    #[test]
    fn small_asks_for_less_and_large_for_more_of_each() {
        let settings = Settings::default();
        let [small, standard, large] =
            Profile::ALL.map(|profile| requests(profile, &settings.resources));
        let programs = four(&small).into_iter().zip(four(&standard));
        for ((small, standard), large) in programs.zip(four(&large)) {
            for name in ["cpu", "memory"] {
                assert!(amount(small, name) < amount(standard, name), "{small:?}");
                assert!(amount(large, name) > amount(standard, name), "{large:?}");
            }
        }
        let [small, standard, large] =
            Profile::ALL.map(|profile| memory_limits(profile, &settings.memory_limits));
        assert_eq!(standard, settings.memory_limits);
        assert_eq!(
            (small.api_server.as_str(), large.api_server.as_str()),
            ("2Gi", "16Gi")
        );
        assert_eq!(small.konnectivity, standard.konnectivity);
    }

    #[test]
    fn platform_that_gives_less_or_more_is_never_outdone() {
        let mut settings = Settings::default();
        let set = |amounts: &mut BTreeMap<String, String>, cpu: &str| {
            *amounts = [("cpu".to_owned(), cpu.to_owned())].into();
        };
        set(&mut settings.resources.api_server, "1m");
        set(&mut settings.resources.etcd, "9");
        settings.memory_limits.etcd = "0".to_owned();
        settings.memory_limits.scheduler = "64Gi".to_owned();
        settings.memory_limits.api_server = "1Gi".to_owned();
        let small = requests(Profile::Small, &settings.resources);
        assert_eq!(small.api_server["cpu"], "1m");
        assert!(!small.api_server.contains_key("memory"), "not asked for");
        let large = requests(Profile::Large, &settings.resources);
        assert_eq!(large.etcd["cpu"], "9");
        assert_eq!(large.api_server["memory"], "4Gi");
        for profile in Profile::ALL {
            let most = memory_limits(profile, &settings.memory_limits);
            assert_eq!(most.etcd, "0", "the platform wants none");
        }
        let large = memory_limits(Profile::Large, &settings.memory_limits);
        assert_eq!(large.scheduler, "64Gi");
        let small = memory_limits(Profile::Small, &settings.memory_limits);
        assert_eq!(small.api_server, "1Gi");
    }

    #[test]
    fn flags_are_such_as_a_user_may_change_and_what_he_says_holds() {
        for profile in Profile::ALL {
            for program in Program::ALL {
                for (name, value) in table(profile, program) {
                    assert_eq!(allowed_since(program, name), Some(34), "{name}");
                    let extra = BTreeMap::from([((*name).to_owned(), "1".to_owned())]);
                    let left = flags(profile, program, &extra);
                    assert!(!left.iter().any(|(left, _)| left == name), "{name}");
                    let all = flags(profile, program, &BTreeMap::new());
                    assert!(all.contains(&(*name, (*value).to_owned())), "{name}");
                }
            }
        }
    }

    #[test]
    fn threads_are_left_to_a_limit_of_processor_time() {
        let none = BTreeMap::new();
        let limited = BTreeMap::from([("cpu".to_owned(), "2".to_owned())]);
        let names = |profile, runtime, limits| {
            let variables: Vec<EnvVar> = environment(profile, runtime, limits);
            let names = variables.into_iter().map(|variable| variable.name);
            names.collect::<Vec<_>>()
        };
        let small = names(Profile::Small, Runtime::ApiServer, &none);
        assert_eq!(small, ["GOGC", "GOMAXPROCS"]);
        let small = names(Profile::Small, Runtime::ApiServer, &limited);
        assert_eq!(small, ["GOGC"]);
        assert!(names(Profile::Standard, Runtime::Etcd, &none).is_empty());
        assert!(names(Profile::Large, Runtime::Scheduler, &none).is_empty());
        let standard = names(Profile::Standard, Runtime::Scheduler, &none);
        assert_eq!(standard, ["GOMAXPROCS"]);
    }
}
