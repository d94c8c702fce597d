//! The programs of a release: which crate makes each, what its image is called, and where the chart says its digest.
//!
//! Invariant: every image of ours that the chart or the operator's configuration names is of one of them, but for the
//! root disks of workers, which are no programs.

/// Where images of ours are published; the first part of their names in the chart.
pub(crate) const REGISTRY: &str = "ghcr.io/covey-dev";

/// One program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its crate.
    pub(crate) package: &'static str,
    /// What cargo calls its binary.
    pub(crate) binary: &'static str,
    /// Its image, below [`REGISTRY`].
    pub(crate) image: &'static str,
    /// Where it is in the image.
    pub(crate) place: &'static str,
    /// What it is, in a few words.
    pub(crate) title: &'static str,
    /// Where the digest of its image is written.
    pub(crate) digest: Digest,
}

/// Where the chart's values say a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digest {
    /// `digest` of the image in this part of the values; none: at their top.
    Image(Option<&'static str>),
    /// This name below `config.images`, as `path:tag@digest`.
    Config(&'static str),
}

/// All of them.
pub(crate) const PROGRAMS: [Program; 9] = [
    Program {
        package: "operator",
        binary: "operator",
        image: "operator",
        place: "/operator",
        title: "Covey's operator and its admission webhook",
        digest: Digest::Image(None),
    },
    Program {
        package: "etcd-agent",
        binary: "etcd-agent",
        image: "etcd-agent",
        place: "/etcd-agent",
        title: "What stands beside each member of a tenant cluster's etcd",
        digest: Digest::Config("etcdAgent"),
    },
    Program {
        package: "ccm",
        binary: "ccm",
        image: "ccm",
        place: "/ccm",
        title: "Covey's cloud controller manager",
        digest: Digest::Config("ccm"),
    },
    Program {
        package: "csi-proxy",
        binary: "csi-proxy",
        image: "csi",
        place: "/csi-proxy",
        title: "Covey's CSI driver, with tools for ext4 and XFS",
        digest: Digest::Config("csi"),
    },
    Program {
        package: "autoscaler",
        binary: "autoscaler",
        image: "autoscaler",
        place: "/autoscaler",
        title: "The Cluster Autoscaler's adapter",
        digest: Digest::Config("autoscaler"),
    },
    Program {
        package: "activator",
        binary: "activator",
        image: "activator",
        place: "/activator",
        title: "What waits in the place of tenant clusters that sleep",
        digest: Digest::Image(Some("activator")),
    },
    Program {
        package: "link-node",
        binary: "link-node",
        image: "link-node",
        place: "/link-node",
        title: "The overlay among the nodes of a tenant cluster",
        digest: Digest::Config("linkNode"),
    },
    Program {
        package: "dashboard",
        binary: "covey-dashboard",
        image: "dashboard",
        place: "/covey-dashboard",
        title: "Covey's dashboard",
        digest: Digest::Image(Some("dashboard")),
    },
    Program {
        package: "cli",
        binary: "covey",
        image: "covey",
        place: "/covey",
        title: "Covey's command line",
        digest: Digest::Image(Some("doctor")),
    },
];

/// The command line among them.
pub(crate) const CLI: &str = "covey";
/// The CSI driver, whose image has tools of Debian's beside it.
pub(crate) const CSI: &str = "csi-proxy";

impl Program {
    /// Its image without tag and digest.
    pub(crate) fn repository(&self) -> String {
        format!("{REGISTRY}/{}", self.image)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::generated::root;

    #[test]
    fn every_image_of_ours_in_the_chart_is_of_a_program() {
        let values = root().unwrap().join("deploy/charts/covey/values.yaml");
        let values = std::fs::read_to_string(values).unwrap();
        let known: BTreeSet<_> = PROGRAMS.iter().map(|program| program.image).collect();
        let mut named = BTreeSet::new();
        for (at, prefix) in values.match_indices("covey-dev/") {
            let rest = &values[at + prefix.len()..];
            let end = rest.find([':', '\n']).unwrap();
            named.insert(&rest[..end]);
        }
        assert!(named.remove("worker"), "{named:?}");
        assert_eq!(named, known);
    }

    #[test]
    fn every_program_is_a_crate_of_the_workspace_with_this_binary() {
        let root = root().unwrap();
        let metadata = crate::workspace::Metadata::read(&root).unwrap();
        for program in PROGRAMS {
            let package = metadata
                .packages
                .iter()
                .find(|package| package.name == program.package);
            let folder = root.join(metadata.folder(package.unwrap()));
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let named = manifest.contains(&format!("[[bin]]\nname = \"{}\"", program.binary));
            assert!(
                named || program.package == program.binary,
                "{}",
                program.binary
            );
            assert!(folder.join("src/main.rs").is_file(), "{}", program.package);
        }
    }
}
