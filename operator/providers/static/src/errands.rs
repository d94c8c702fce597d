//! What is done on a machine in one session.
//!
//! Invariant: a machine says which one it is before anything is done on it, and nothing is done on one that was
//! not expected; each errand can be repeated, whatever became of the last one.

use std::time::Duration;

use api::host::HostNode;
use jiff::Timestamp;
use tokio::fs::File;

use crate::join;
use crate::life::adoption;
use crate::life::observed::{Errand, Outcome};
use crate::plan::claim::{Claim, Owner};
use crate::plan::cleanliness::Cleanliness;
use crate::plan::facts::Facts;
use crate::plan::progress::{Expected, Operation, Progress};
use crate::programs::Archive;
use crate::scripts::parameters::Parameters;
use crate::scripts::{self, CLAIM, CLEAN, FACTS, JOIN, POLL, RESET, START};
use crate::session::error::Error;
use crate::session::opened::Session;
use crate::session::upload::{Upload, Uploaded};

/// How long a join or a reset may run on the machine, in seconds.
const LONGEST: u32 = 900;
/// How long programs are sent in one session; the next one goes on. Others wait for its place meanwhile.
const SENDING: Duration = Duration::from_secs(30);
/// Where programs are sent to; `sent.sh` has it, too.
const ARCHIVE: &str = "/var/lib/covey/programs.tar.gz";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// What is to be done.
    pub errand: Errand,
    /// Machine-ids that the machine may have; empty: any.
    pub expected: Vec<String>,
    /// Whose the machine is, or becomes; of [`Errand::Inspect`] who says that it is looked after.
    pub owner: Owner,
    /// The node that is taken over as it runs; of [`Errand::Claim`] and [`Errand::Join`].
    pub adopts: Option<HostNode>,
    /// When it became so, in RFC 3339.
    pub made_at: String,
    /// SHA-256 of the tenant cluster's authority, in hexadecimal; of [`Errand::Join`].
    pub ca: String,
    /// What the script is told, or why it cannot be started: how far it is, is asked all the same, because what it
    /// was told is blanked as soon as the node is there. Of [`Errand::Join`].
    pub join: Result<Parameters, join::Error>,
    /// What it is sent before; of [`Errand::Join`].
    pub programs: Option<Archive>,
    /// What ran before has ended badly: it is started anew.
    pub is_again: bool,
}

impl Order {
    /// To see what it is.
    #[must_use]
    pub fn inspect(expected: Vec<String>) -> Self {
        Self {
            errand: Errand::Inspect,
            expected,
            owner: Owner::default(),
            adopts: None,
            made_at: String::new(),
            ca: String::new(),
            join: Ok(Parameters::default()),
            programs: None,
            is_again: false,
        }
    }

    /// Number of the operation: eight hexadecimal digits of the Machine's UID.
    fn id(&self) -> String {
        let digits = self.owner.machine.chars();
        digits.filter(char::is_ascii_hexdigit).take(8).collect()
    }
}

/// Does it.
///
/// # Errors
/// [`Error`]; then nobody knows what was done.
pub async fn run(session: &Session, order: &Order) -> Result<Outcome, Error> {
    let caller = Parameters::default().plain("machine", &order.owner.machine);
    let asked = Timestamp::now();
    let answer = session.run(&FACTS, &caller).await?;
    let facts = Facts::read(&answer).asked_between(asked, Timestamp::now());
    if !order.expected.is_empty() && !order.expected.contains(&facts.machine_id) {
        let machine_id = facts.machine_id;
        return Ok(Outcome::AnotherMachine { machine_id });
    }
    match order.errand {
        Errand::Inspect => Ok(Outcome::Seen {
            facts: Box::new(facts),
            host_key: session.host_key().to_owned(),
            clean: clean(session).await?,
        }),
        Errand::Claim => {
            let seen = order.adopts.as_ref();
            if let Some(Err(words)) = seen.map(|node| adoption::as_seen(node, &facts, "")) {
                return Ok(Outcome::Claim(Claim::Changed(words)));
            }
            let replaces = seen.and_then(|node| node.owner.as_ref());
            let parameters = order.owner.parameters(&order.made_at, replaces);
            let answer = session.run(&CLAIM, &parameters).await?;
            Ok(Outcome::Claim(Claim::read(&answer, &order.owner)))
        }
        Errand::Join => {
            let seen = order.adopts.as_ref();
            if let Some(Err(words)) = seen.map(|node| adoption::as_seen(node, &facts, &order.ca)) {
                return Ok(Outcome::Join(Progress::Foreign(words)));
            }
            let before = seen.map(|_| facts.kubelet_ca.as_str());
            let progress = progress(session, order, (Operation::Join, before)).await?;
            Ok(Outcome::Join(progress))
        }
        Errand::Reset => {
            let progress = progress(session, order, (Operation::Reset, None)).await?;
            let (clean, kubelet) = match progress {
                // What was sent is gone, and the machine's own kubelet, if it has one, is found again.
                Progress::Undone => (clean(session).await?, own_kubelet(session).await?),
                _ => (Cleanliness::Unknown, facts.kubelet),
            };
            Ok(Outcome::Reset {
                progress,
                clean,
                kubelet,
            })
        }
    }
}

async fn clean(session: &Session) -> Result<Cleanliness, Error> {
    let answer = session.run(&CLEAN, &Parameters::default()).await?;
    Ok(Cleanliness::read(&answer))
}

async fn own_kubelet(session: &Session) -> Result<Option<String>, Error> {
    let answer = session.run(&FACTS, &Parameters::default()).await?;
    Ok(Facts::read(&answer).kubelet)
}

/// Sends programs; gives whether all of them are there.
async fn send(session: &Session, archive: &Archive) -> Result<bool, Error> {
    let mut content = File::open(&archive.path).await.map_err(Error::Source)?;
    let known = content.metadata().await.map_err(Error::Source)?;
    let file = Upload {
        path: ARCHIVE.to_owned(),
        sha256: archive.sha256.clone(),
        size: known.len(),
        is_program: false,
    };
    let uploaded = session.upload(&file, &mut content, SENDING).await?;
    Ok(!matches!(uploaded, Uploaded::Partly(_)))
}

/// Asks how far it is, and starts it where nothing runs. `before`: digest of the authority that a kubelet which is
/// taken over believes until then.
async fn progress(
    session: &Session,
    order: &Order,
    (operation, before): (Operation, Option<&str>),
) -> Result<Progress, Error> {
    let expected = Expected {
        operation,
        id: order.id(),
        machine: order.owner.machine.clone(),
        ca: order.ca.clone(),
        before: before.unwrap_or_default().to_owned(),
    };
    let answer = session.run(&POLL, &Parameters::default()).await?;
    let found = Progress::read(&answer, &expected);
    let is_ended = matches!(found, Progress::Failed(_) | Progress::Undone);
    if found != Progress::Start && !(is_ended && order.is_again) {
        return Ok(found);
    }
    let (script, told) = match (operation, &order.join) {
        (Operation::Reset, _) => (&RESET, Parameters::default()),
        (Operation::Join, Ok(told)) => (&JOIN, told.clone()),
        (Operation::Join, Err(why)) => return Ok(Progress::Failed(why.to_string())),
    };
    if let (Operation::Join, Some(archive)) = (operation, &order.programs)
        && !send(session, archive).await?
    {
        return Ok(Progress::Working("programs".to_owned()));
    }
    let told = told
        .plain("operation", script.name)
        .plain("id", &expected.id)
        .plain("machine", &expected.machine)
        .plain("before", &expected.before);
    let parameters = scripts::start(script, &expected.id, LONGEST, &told);
    let answer = session.run(&START, &parameters).await?;
    Ok(match answer.get("result") {
        "started" | "working" => Progress::Working("start".to_owned()),
        "unwritable" => Progress::Failed(Claim::Unwritable.words()),
        _ => Progress::Failed("it was not started, and the machine does not say why".to_owned()),
    })
}
