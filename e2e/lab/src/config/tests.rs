//! Configuration: deterministic, per slot, without collisions between labs.

use std::path::Path;

use super::*;

fn cluster(checkout: &str, slot: usize) -> Cluster {
    let slot = Slot::all().nth(slot).unwrap();
    Cluster {
        layout: Layout::at(Path::new(checkout)),
        slot,
    }
}

fn paths() -> ProgramPaths {
    let binaries = ["kube-apiserver", "etcd", "runc", "containerd", "lab-agent"];
    let binaries = binaries.map(|name| (name.to_owned(), Path::new("/cache").join(name)));
    ProgramPaths {
        binaries: binaries.into(),
        cni: "/cache/cni".into(),
    }
}

#[test]
fn rendering_twice_gives_the_same_fingerprints() {
    let cluster = cluster("/nowhere/a", 0);
    assert_eq!(
        cluster.fingerprints(&paths()),
        cluster.fingerprints(&paths())
    );
}

#[test]
fn another_binary_changes_the_fingerprint_of_its_program_alone() {
    let cluster = cluster("/nowhere/a", 0);
    let before = cluster.fingerprints(&paths());
    let mut newer = paths();
    newer.binaries.insert("etcd".into(), "/cache/etcd-2".into());
    let after = cluster.fingerprints(&newer);
    let changed: Vec<_> = before
        .iter()
        .filter(|(k, v)| after.get(*k) != Some(*v))
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].0, "etcd");
}

#[test]
fn two_labs_share_no_path_address_or_control_group() {
    let (a, b) = (cluster("/nowhere/a", 0), cluster("/nowhere/b", 1));
    let of = |cluster: &Cluster| {
        let files = cluster.files(&paths()).into_values();
        let programs = cluster.programs(&paths()).into_iter().flat_map(|p| p.argv);
        files.chain(programs).collect::<Vec<_>>().join("\n")
    };
    for own in [
        "/nowhere/b/",
        "172.28.1.",
        "172.17.",
        "172.23.",
        "/covey-lab-1",
    ] {
        assert!(of(&b).contains(own), "{own} is missing");
        assert!(!of(&a).contains(own), "{own} belongs to the other lab");
    }
}

#[test]
fn every_file_that_a_command_line_names_is_rendered_or_a_certificate() {
    let cluster = cluster("/nowhere/a", 0);
    let files = cluster.files(&paths());
    let config = text(&cluster.layout.config());
    for program in cluster.programs(&paths()) {
        for arg in &program.argv {
            let value = arg.split_once('=').map_or(arg.as_str(), |(_, value)| value);
            if value.starts_with(&config) {
                assert!(
                    files.contains_key(Path::new(value)),
                    "{}: {value}",
                    program.name
                );
            }
        }
    }
}

#[test]
fn containerd_configuration_is_toml_and_cleaning_serves_no_pods() {
    let files = cluster("/nowhere/a", 0).files(&paths());
    let parse = |name: &str| {
        let (_, content) = files.iter().find(|(path, _)| path.ends_with(name)).unwrap();
        content.parse::<toml::Table>().unwrap()
    };
    let disabled = |name| parse(name)["disabled_plugins"].as_array().unwrap().len();
    assert_eq!(
        (
            disabled("containerd.toml"),
            disabled("containerd-clean.toml")
        ),
        (0, 1)
    );
    let runtime = &parse("containerd.toml")["plugins"]["io.containerd.cri.v1.runtime"];
    assert_eq!(runtime["restrict_oom_score_adj"].as_bool(), Some(true));
    parse("hosts.toml");
}
