//! Which of Kubernetes' own tests: the published list, and two suites beyond it.
//!
//! Invariant: pure. What a suite leaves out is left out by a label that the tests carry, and named with its reason;
//! what was run of it is every other test that carries its name.

use clap::ValueEnum;

use crate::driver;

/// Tests that belong together, and what they need.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Suite {
    /// The published list, on hosts
    #[default]
    Conformance,
    /// Services of type LoadBalancer, on virtual machines or hosts that play them
    LoadBalancers,
    /// Volumes of the CSI driver (External.Storage), on virtual machines
    Storage,
}

/// What the nodes of the tenant cluster are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Nodes {
    /// Hosts that are reached by SSH.
    Hosts,
    /// Virtual machines, or hosts that play them.
    Machines,
    /// Virtual machines of KubeVirt: disks are plugged into them.
    VirtualMachines,
}

/// Tests that cannot run here whatever the cluster, and are not begun.
struct LeftOut {
    /// Which labels, as a regular expression for all of one.
    label: &'static str,
    /// What a name has that carries the label, in lower case.
    part: &'static str,
    why: &'static str,
}

const DISRUPTIVE: LeftOut = LeftOut {
    label: "Disruptive",
    part: "[disruptive]",
    why: "it logs in at nodes to stop their kubelets, and workers let nobody in",
};
const NOT_ON: LeftOut = LeftOut {
    label: "(Feature:)?(Alpha|BetaOffByDefault|OffByDefault)",
    part: "offbydefault]",
    why: "its feature is off unless somebody switches it on, and a tenant cluster is tried as a user gets it",
};
const LOAD_BALANCERS: &[LeftOut] = &[
    DISRUPTIVE,
    NOT_ON,
    LeftOut {
        label: "Feature:IPv6DualStack",
        part: "[feature:ipv6dualstack]",
        why: "pods of the lab have addresses of IPv4 alone",
    },
];
const STORAGE: &[LeftOut] = &[
    DISRUPTIVE,
    NOT_ON,
    LeftOut {
        label: "Feature:Windows",
        part: "[feature:windows]",
        why: "nodes are Linux",
    },
    LeftOut {
        label: "Feature:SELinux.*",
        part: "[feature:selinux",
        why: "nodes have no SELinux, and the driver mounts with no context of it (docs/csi.md)",
    },
    LeftOut {
        label: "Feature:(?i:VolumeGroupSnapshot).*",
        part: "[feature:volumegroupsnapshot",
        why: "snapshots are of one volume each (docs/csi.md)",
    },
];

/// Tests that are run and cannot pass: part of the name, reason.
const CANNOT_PASS: &[(&str, &str)] = &[(
    "should be able to create LoadBalancer Service without NodePort",
    "load balancers lead to node ports of machines, so a port without one is reached by none, which an Event says \
     (NoNodePort, docs/ccm.md)",
)];

impl Suite {
    /// For reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Conformance => "conformance",
            Self::LoadBalancers => "load-balancers",
            Self::Storage => "storage",
        }
    }

    /// What it runs on.
    pub(crate) fn nodes(self) -> Nodes {
        match self {
            Self::Conformance => Nodes::Hosts,
            Self::LoadBalancers => Nodes::Machines,
            Self::Storage => Nodes::VirtualMachines,
        }
    }

    /// So many tests at once, unless somebody says otherwise: processors of virtual machines are emulated.
    pub(crate) fn procs(self) -> u8 {
        match self {
            Self::Conformance => 4,
            Self::LoadBalancers | Self::Storage => 2,
        }
    }

    /// ginkgo's filter of its tests by their labels.
    pub(crate) fn labels(self) -> String {
        let own = match self {
            Self::Conformance => return "Conformance".to_owned(),
            Self::LoadBalancers => Some("/^Feature:LoadBalancer$/".to_owned()),
            // Its tests have no label in common: they are chosen by their names.
            Self::Storage => None,
        };
        let without = self.left_out().iter();
        let without = without.map(|left| format!("!/^{}$/", left.label));
        let all: Vec<_> = own.into_iter().chain(without).collect();
        all.join(" && ")
    }

    /// The expression for names, with what the user asks for: that can only make it less.
    pub(crate) fn focus(self, asked: Option<&str>) -> Option<String> {
        let asked = asked.map(|asked| format!("(?:{asked})"));
        match self {
            Self::Conformance | Self::LoadBalancers => asked,
            Self::Storage => {
                let driver = driver::NAME.replace('.', r"\.");
                let all = format!(r"External.Storage.*\[Driver: {driver}\]");
                Some(asked.map_or(all.clone(), |asked| format!("{all}.*{asked}")))
            }
        }
    }

    /// Whether a test is one of it. Of the published list it is said by that.
    pub(crate) fn has(self, name: &str) -> bool {
        match self {
            Self::Conformance => name.ends_with("[Conformance]"),
            Self::LoadBalancers => name.contains("[Feature:LoadBalancer]"),
            Self::Storage => {
                let driver = format!("[Driver: {}]", driver::NAME);
                name.contains("External Storage") && name.contains(&driver)
            }
        }
    }

    /// Why a test is not begun.
    pub(crate) fn why_left_out(self, name: &str) -> Option<&'static str> {
        let name = name.to_lowercase();
        let mut left = self.left_out().iter();
        left.find(|left| name.contains(left.part))
            .map(|left| left.why)
    }

    fn left_out(self) -> &'static [LeftOut] {
        match self {
            Self::Conformance => &[],
            Self::LoadBalancers => LOAD_BALANCERS,
            Self::Storage => STORAGE,
        }
    }
}

/// Why a test that failed cannot pass here, whatever the cluster.
pub(crate) fn why_it_cannot_pass(name: &str) -> Option<&'static str> {
    let found = CANNOT_PASS.iter().find(|(part, _)| name.contains(part));
    found.map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Suite; 3] = [Suite::Conformance, Suite::LoadBalancers, Suite::Storage];

    #[test]
    fn each_suite_knows_its_tests_by_name_and_no_other_suites() {
        let names = [
            "[sig-apps] works [Conformance]",
            "[sig-network] LoadBalancers [Feature:LoadBalancer] should be reached [Slow]",
            "External Storage [Driver: csi.covey.dev] [Testpattern: Dynamic PV (ext4)] volumes should store data",
        ];
        for (number, suite) in ALL.into_iter().enumerate() {
            let has: Vec<_> = names.iter().map(|name| suite.has(name)).collect();
            let wanted: Vec<_> = (0..3).map(|other| other == number).collect();
            assert_eq!(has, wanted, "{suite:?}");
        }
        let other = "External Storage [Driver: ebs.csi.aws.com] volumes should store data";
        assert!(!Suite::Storage.has(other));
    }

    #[test]
    fn what_is_asked_for_makes_a_suite_less_and_never_more() {
        let conformance = Suite::Conformance;
        assert_eq!(conformance.focus(None), None);
        assert_eq!(conformance.focus(Some("a|b")).as_deref(), Some("(?:a|b)"));
        let all = r"External.Storage.*\[Driver: csi\.covey\.dev\]";
        assert_eq!(Suite::Storage.focus(None).as_deref(), Some(all));
        // Whatever is asked for, the driver's name is in front of it.
        let less = Suite::Storage.focus(Some("a|b"));
        assert_eq!(less, Some(format!("{all}.*(?:a|b)")));
    }

    #[test]
    fn what_is_left_out_is_filtered_by_label_and_named_with_a_reason() {
        assert_eq!(Suite::Conformance.labels(), "Conformance");
        let labels = Suite::LoadBalancers.labels();
        assert!(
            labels.starts_with("/^Feature:LoadBalancer$/ && !/^Disruptive$/"),
            "{labels}"
        );
        for suite in [Suite::LoadBalancers, Suite::Storage] {
            let labels = suite.labels();
            for left in suite.left_out() {
                assert!(labels.contains(&format!("!/^{}$/", left.label)), "{labels}");
                assert_eq!(left.part, left.part.to_lowercase());
                assert!(!left.why.is_empty());
            }
        }
        let name = "External Storage [Driver: csi.covey.dev] disruptive [Disruptive] [LinuxOnly]";
        let why = Suite::Storage.why_left_out(name);
        assert_eq!(why, Some(DISRUPTIVE.why));
        assert_eq!(Suite::Conformance.why_left_out(name), None);
        let plain = "External Storage [Driver: csi.covey.dev] volumes should store data";
        assert_eq!(Suite::Storage.why_left_out(plain), None);
    }

    #[test]
    fn only_a_documented_limit_excuses_a_failure() {
        let name = "[sig-network] LoadBalancers [Feature:LoadBalancer] should be able to create LoadBalancer Service \
                    without NodePort and change it [Slow]";
        assert!(why_it_cannot_pass(name).is_some());
        assert!(why_it_cannot_pass("[sig-apps] works [Conformance]").is_none());
    }
}
