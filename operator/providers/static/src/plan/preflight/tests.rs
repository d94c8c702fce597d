//! Machines that can become nodes, and those that cannot.
//!
//! Invariant: each thing that is wrong gives its own words, alone.

use super::*;

fn good() -> Facts {
    Facts {
        machine_id: "8f3c".to_owned(),
        arch: "x86_64".to_owned(),
        cpus: Some(4),
        memory_mib: Some(1977),
        swap_mib: Some(0),
        disk_free_mib: Some(20_000),
        os: "debian 12".to_owned(),
        kernel: "6.1.0-18-amd64".to_owned(),
        clock_skew: Some(10),
        cgroup2: true,
        tun: true,
        overlay: true,
        bridge_filter: true,
        writable: true,
        run_is_memory: true,
        ..Facts::default()
    }
}

fn needs() -> Needs {
    Needs {
        ca: "ca".to_owned(),
        us: Owner {
            installation: "i".to_owned(),
            tenant_cluster: "t".to_owned(),
            machine: "m".to_owned(),
        },
        ..Needs::default()
    }
}

fn changed(change: impl FnOnce(&mut Facts)) -> Vec<Problem> {
    let mut facts = good();
    change(&mut facts);
    problems(&facts, &needs())
}

#[test]
fn a_plain_machine_is_usable() {
    assert_eq!(problems(&good(), &needs()), []);
}

#[test]
fn cgroup_v1_is_fine_where_the_platform_allows_it() {
    let facts = Facts {
        cgroup2: false,
        ..good()
    };
    assert_eq!(problems(&facts, &needs()), [Problem::Cgroup]);
    let allowed = Needs {
        cgroup1: true,
        ..needs()
    };
    assert_eq!(problems(&facts, &allowed), []);
}

#[test]
fn each_thing_that_is_wrong_is_said_alone_and_how_to_mend_it() {
    let cases: [(Vec<Problem>, &str); 17] = [
        (changed(|f| f.arch = "i686".to_owned()), "64-bit"),
        (changed(|f| f.kernel = "5.10.0".to_owned()), "install 5.15"),
        (
            changed(|f| f.kernel = "unknown".to_owned()),
            "kernel version",
        ),
        (changed(|f| f.cgroup2 = false), "unified_cgroup_hierarchy"),
        (changed(|f| f.swap_mib = Some(512)), "swapoff -a"),
        (changed(|f| f.memory_mib = Some(1024)), "2048"),
        (changed(|f| f.memory_mib = None), "no memory"),
        (changed(|f| f.disk_free_mib = Some(9000)), "10240"),
        (changed(|f| f.writable = false), "read-only"),
        (changed(|f| f.run_is_memory = false), "tmpfs"),
        (changed(|f| f.clock_skew = Some(30)), "30 s off"),
        (changed(|f| f.clock_skew = Some(1000)), "1000 s off"),
        (changed(|f| f.overlay = false), "modprobe overlay"),
        (
            changed(|f| f.bridge_filter = false),
            "modprobe br_netfilter",
        ),
        (changed(|f| f.missing = vec!["flock".to_owned()]), "flock"),
        (changed(|f| f.foreign_tasks = 2), "2 containers"),
        (changed(|f| f.ports = vec![10250]), "ss -ltnp"),
    ];
    for (problems, words) in cases {
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().contains(words), "{}", problems[0]);
    }
}

#[test]
fn foreign_kubelets_and_owners_are_refused_and_our_own_is_not() {
    let foreign = changed(|f| f.kubelet_configured = true);
    assert_eq!(foreign, [Problem::ForeignKubelet]);
    let owned = changed(|f| f.owner = Some(Owner::default()));
    assert!(matches!(owned[..], [Problem::Owned(_)]));
    let half = |f: &mut Facts| {
        f.owner = Some(needs().us);
        f.kubelet_configured = true;
        f.kubelet_ca = "ca".to_owned();
        f.processes = vec!["kubelet".to_owned(), "containerd".to_owned()];
        f.ports = vec![10250];
        f.tasks = 3;
    };
    assert_eq!(changed(half), [], "a join of ours that is resumed");
    let other_cluster = changed(|f| {
        half(f);
        f.kubelet_ca = "other".to_owned();
    });
    assert_eq!(other_cluster, [Problem::ForeignKubelet]);
}

#[test]
fn other_runtimes_are_refused_by_name() {
    let k3s = changed(|f| f.processes = vec!["containerd".to_owned(), "k3s".to_owned()]);
    assert_eq!(k3s, [Problem::ForeignProgram("k3s".to_owned())]);
}

#[test]
fn a_pool_may_want_less_or_more() {
    let with = |change: fn(&mut Needs)| {
        let mut needs = needs();
        change(&mut needs);
        let mut facts = good();
        (facts.swap_mib, facts.tun) = (Some(512), false);
        problems(&facts, &needs)
    };
    assert_eq!(with(|n| n.swap = true), []);
    assert_eq!(
        with(|n| (n.swap, n.overlay) = (true, true)),
        [Problem::Overlay]
    );
    let arm = with(|n| (n.swap, n.arch) = (true, Some("arm64".to_owned())));
    assert!(matches!(arm[..], [Problem::OtherArch { .. }]));
    assert_eq!(
        with(|n| (n.swap, n.arch) = (true, Some("amd64".to_owned()))),
        []
    );
}

#[test]
fn a_machine_that_says_nothing_is_not_usable() {
    let silent = problems(&Facts::read(&Default::default()), &needs());
    assert!(silent.contains(&Problem::Unknown("memory")));
    assert!(silent.contains(&Problem::ForeignKubelet));
}

#[test]
fn address_of_the_node_is_one_that_the_machine_has() {
    let has = |addresses: &[&str]| {
        let facts = Facts {
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            ..good()
        };
        let needs = Needs {
            node_address: Some("10.0.0.4".parse().unwrap()),
            ..needs()
        };
        problems(&facts, &needs)
    };
    assert_eq!(has(&["127.0.0.1", "10.0.0.4"]), []);
    assert_eq!(has(&[]), [Problem::Unknown("addresses")]);
    let found = has(&["127.0.0.1", "fe80::1", "10.0.0.5", "fd00::5"]);
    let words = found.iter().map(ToString::to_string).collect::<String>();
    assert!(
        words.contains("spec.nodeAddress") && words.contains("(10.0.0.5, fd00::5)"),
        "{words}"
    );
}

#[test]
fn programs_of_a_node_are_in_the_way_only_where_they_cannot_be_sent() {
    let bare = Facts {
        missing_programs: vec!["kubelet".to_owned()],
        missing_unpackers: vec!["tar".to_owned()],
        ..good()
    };
    let missing = |sends_programs, facts: &Facts| {
        let needs = Needs {
            sends_programs,
            ..needs()
        };
        problems(facts, &needs)
    };
    let of = |name: &str| vec![Problem::Missing(name.to_owned())];
    assert_eq!(missing(false, &bare), of("kubelet"));
    assert_eq!(missing(true, &bare), of("tar"));
    let unpacks = Facts {
        missing_unpackers: Vec::new(),
        ..bare
    };
    assert_eq!(missing(true, &unpacks), []);
}
