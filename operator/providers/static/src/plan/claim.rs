//! Whose machine it is.
//!
//! Invariant: an owner that cannot be read is somebody else; what the machine itself says has the last word.

use std::fmt;

use api::host::HostOwner;

use crate::answer::Answer;
use crate::scripts::parameters::Parameters;

/// Who has a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// UID of the installation of Covey.
    pub installation: String,
    /// UID of the TenantCluster.
    pub tenant_cluster: String,
    /// UID of the Machine.
    pub machine: String,
}

impl Owner {
    /// What the Host's status has of it.
    #[must_use]
    pub fn seen(&self) -> HostOwner {
        HostOwner {
            installation_uid: self.installation.clone(),
            tenant_cluster_uid: self.tenant_cluster.clone(),
            machine_uid: self.machine.clone(),
        }
    }

    pub(super) fn read(answer: &Answer, names: [&str; 3]) -> Self {
        let [installation, tenant_cluster, machine] = names.map(|name| answer.words(name));
        Self {
            installation,
            tenant_cluster,
            machine,
        }
    }

    /// What the script `claim` is told; `made_at` in RFC 3339. `replaces`: the owner of a node that is taken over, which
    /// is replaced where it is that very one.
    #[must_use]
    pub fn parameters(&self, made_at: &str, replaces: Option<&HostOwner>) -> Parameters {
        let parameters = Parameters::default()
            .plain("installation", &self.installation)
            .plain("tenantCluster", &self.tenant_cluster)
            .plain("machine", &self.machine)
            .plain("madeAt", made_at);
        match replaces {
            None => parameters,
            Some(seen) => parameters
                .plain("replaces", "true")
                .plain("seenInstallation", &seen.installation_uid)
                .plain("seenTenantCluster", &seen.tenant_cluster_uid)
                .plain("seenMachine", &seen.machine_uid),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("an owner whose file cannot be read");
        }
        let Self {
            installation,
            tenant_cluster,
            machine,
        } = self;
        write!(
            f,
            "Machine {machine} of tenant cluster {tenant_cluster} (installation {installation})"
        )
    }
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is ours, since now or since before.
    Ours,
    /// It is somebody else's: Quarantined, and nothing on it is touched.
    Foreign(Owner),
    /// The node that was to be taken over is another one by now, in words: nothing on it is touched.
    Changed(String),
    /// It cannot be written: a full disk, or one that became read-only.
    Unwritable,
}

impl Claim {
    /// Reads the answer of `claim`. The machine says "claimed", and whose it is then has to be us.
    #[must_use]
    pub fn read(answer: &Answer, us: &Owner) -> Self {
        let owner = Owner::read(answer, ["installation", "tenantCluster", "machine"]);
        match answer.get("result") {
            "unwritable" => Self::Unwritable,
            "claimed" if owner == *us => Self::Ours,
            _ => Self::Foreign(owner),
        }
    }

    /// For people; empty when it is ours.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Ours => String::new(),
            Self::Changed(words) => words.clone(),
            Self::Foreign(owner) => format!(
                "the machine belongs to {owner}: delete that Machine, or, if it is gone for good, remove \
                 /var/lib/covey/owner.json on the machine after cleaning it"
            ),
            Self::Unwritable => {
                "/var/lib/covey cannot be written: the disk is full or read-only; make room, check the filesystem".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> Owner {
        Owner {
            installation: "i".to_owned(),
            tenant_cluster: "t".to_owned(),
            machine: "m".to_owned(),
        }
    }

    fn read(result: &str, machine: &str) -> Claim {
        let fields = [
            ("result", result),
            ("installation", "i"),
            ("tenantCluster", "t"),
            ("machine", machine),
        ];
        Claim::read(&fields.into(), &us())
    }

    #[test]
    fn only_our_own_file_makes_it_ours() {
        assert_eq!(read("claimed", "m"), Claim::Ours);
        assert!(
            matches!(read("claimed", "other"), Claim::Foreign(_)),
            "another Machine of ours"
        );
        assert!(matches!(read("foreign", "m"), Claim::Foreign(_)));
        assert!(matches!(read("", "m"), Claim::Foreign(_)), "no result");
        assert_eq!(read("unwritable", ""), Claim::Unwritable);
    }

    #[test]
    fn words_name_the_owner_and_what_to_do() {
        let words = read("foreign", "other").words();
        assert!(
            words.contains("Machine other of tenant cluster t") && words.contains("owner.json"),
            "{words}"
        );
        assert!(
            Claim::Foreign(Owner::default())
                .words()
                .contains("cannot be read")
        );
        assert_eq!(Claim::Ours.words(), "");
    }
}
