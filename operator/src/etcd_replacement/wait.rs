//! What a replacement waits for, in words.
//!
//! Invariant: the words do not change while the same is waited for: each change is a write of the status.

/// What a member that is being replaced is slow at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slow {
    /// What there is of it cannot be seen.
    Unseen,
    /// The claim or the pod that it had does not go.
    Going,
    /// What it runs with is not there, or it does not run.
    Starting,
    /// It runs, and does not have all the data.
    CatchingUp,
}

/// What is waited for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Wait {
    /// It may come back by itself.
    Absence,
    /// The other members do not serve, or not for long enough.
    Others,
    /// It was hardly a moment ago that one was replaced.
    Pause,
    /// Volumes of members that are to be added are not all bound, or their pods are not there.
    Claims,
    /// Pods of etcd or of kube-apiservers are being replaced.
    Busy,
    /// A kube-apiserver still asks one that is to be taken away.
    Asked,
    /// Members have not all served for long enough since one was taken away.
    Calm,
    /// A member that is to stay, or is to be given the data, does not serve.
    Stays,
    /// The user does not want it, or something else comes first.
    NotAllowed,
    /// Something about the member that goes by itself.
    Member(Slow),
    /// The same, and it has taken so long that somebody has to look.
    Overdue(Slow),
    /// A member says that it is of another cluster.
    Foreign,
    /// etcd has a member that is none of ours.
    Stranger {
        /// Its identifier.
        id: String,
    },
}

impl Slow {
    /// For people, who have to look: what stands still, and what they can do.
    fn overdue(self) -> &'static str {
        match self {
            Self::Unseen => {
                "for a quarter of an hour it could not be seen what there is of it, and nothing is changed \
                 before that: see the operator's logs"
            }
            Self::Going => {
                "for a quarter of an hour the claim or the pod that it had has not gone; if its node is gone \
                 for good, delete the node, and it goes on by itself"
            }
            Self::Starting => {
                "for a quarter of an hour the new one has not started: see its pod and its claim; to begin \
                 anew with another volume, delete both"
            }
            Self::CatchingUp => {
                "for a quarter of an hour the new one has run and not come to have nine tenths of what the \
                 others have: see its volume's speed and the network; it gets a vote as soon as it has; to \
                 begin anew with another volume, delete its claim and its pod"
            }
        }
    }
}

impl Wait {
    /// For people, as the end of a sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Absence => "it is replaced if it is not back after a minute".to_owned(),
            Self::Others => {
                "it goes on once all other members serve, and have for a minute where one is lost".to_owned()
            }
            Self::Pause => {
                "it is replaced ten minutes after the last replacement of a member".to_owned()
            }
            Self::Claims => {
                "it is added once the volumes of all that are to be added are bound, and their pods are there"
                    .to_owned()
            }
            Self::Busy => {
                "it waits until no pod of etcd or of kube-apiservers is being replaced".to_owned()
            }
            Self::Asked => {
                "it is taken away once every kube-apiserver was made anew and asks it no more".to_owned()
            }
            Self::Calm => {
                "it is taken away once all others have served for ten seconds since the last change".to_owned()
            }
            Self::Stays => "first all other members have to serve".to_owned(),
            Self::NotAllowed => {
                "it is not replaced by itself (spec.etcd.autoReplace is false, or a pod of etcd is ending)"
                    .to_owned()
            }
            Self::Member(Slow::Unseen) => {
                "what there is of it cannot be seen now, and nothing is changed meanwhile".to_owned()
            }
            Self::Member(Slow::Going) => "the claim and the pod that it had go".to_owned(),
            Self::Member(Slow::Starting) => "the new one is given its volume, and starts".to_owned(),
            Self::Member(Slow::CatchingUp) => "the new one is given the data".to_owned(),
            Self::Overdue(slow) => slow.overdue().to_owned(),
            Self::Foreign => {
                "it says that it is of another etcd cluster, and nothing is changed before that is mended"
                    .to_owned()
            }
            Self::Stranger { id } => format!(
                "etcd has the member {id}, which is none of this tenant cluster's, and nothing is changed \
                 before it is removed: etcdctl member list"
            ),
        }
    }
}
