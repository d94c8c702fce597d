//! `etcd-agent backup`: from flags and files to the crate `backup`.
//!
//! Invariant: exit code 0 is done, 1 failed, 3 another backup of the same tenant cluster runs, 4 a
//! restore that cannot be had, 5 one that is not what was backed up; 2 is a wrong command line.

mod append;
mod check;
mod choose;
mod clusters;
mod compare;
mod failure;
mod identity;
mod in_place;
mod live;
mod new_key;
mod reading;
mod report;
mod serve;
mod store;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ::backup::engine::{self, Ended, Options, Progress};
use ::backup::plan::Settings;
use ::backup::plan::retention::Retention;
use ::backup::reader;
use ::backup::restore;
use ::backup::restore::programs::{Member, Programs};
use ::backup::restore::survivors::{self, Base, Candidate};
use backup_format::keys::{DataKey, Keys, WrappedKey};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::choose::Choices;
pub use self::failure::Failure;
use self::failure::{ANOTHER, FAILED, read, say};
use self::live::etcd_at;
use self::reading::{find, reader};
use self::store::AnyStore;
use crate::args::backup::{
    BackupArgs, BackupCommand, BuildArgs, RestoreArgs, RunArgs, SalvageArgs, VerifyArgs,
};
use crate::ids::Id;

/// Questions that wait for an answer; more have to wait before they are heard.
const QUESTIONS: usize = 4;

/// Runs the command.
#[must_use]
pub fn run(args: BackupArgs) -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("COVEY_LOG_FILTER");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    // One thread: it waits for most of its time, and each would have memory of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(perform(args.command)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, said)) => {
            let _ = writeln!(io::stderr(), "{said}");
            ExitCode::from(code)
        }
    }
}

/// Carries a command out, without the process around it. What it has to say it says on the standard output.
///
/// # Errors
/// [`Failure`], whose text is for people.
pub async fn perform(command: BackupCommand) -> Result<(), Failure> {
    match command {
        BackupCommand::Run(args) => back_up(args).await,
        BackupCommand::Serve(args) => serve::run(args).await,
        BackupCommand::Check(args) => check::check(&args).await,
        BackupCommand::NewKey(args) => new_key::make(&args),
        BackupCommand::Verify(args) => verify(&args).await,
        BackupCommand::Clusters(args) => clusters::list(&args).await,
        BackupCommand::Identity(args) => identity::open(&args).await,
        BackupCommand::Restore(args) => restore(args).await,
        BackupCommand::Salvage(args) => salvage(args).await,
        BackupCommand::Copy(args) => append::copy(&args),
        BackupCommand::Append(args) => append::append(args).await,
        BackupCommand::Fetch(args) => in_place::fetch(&args).await,
        BackupCommand::Replay(args) => in_place::replay(&args).await,
        BackupCommand::Seal(args) => in_place::seal(&args),
        BackupCommand::Forget(args) => in_place::forget(&args),
        BackupCommand::Compare(args) => compare::compare(&args).await,
    }
}

async fn back_up(args: RunArgs) -> Result<(), Failure> {
    let store = Arc::new(AnyStore::open(&args.store)?);
    let etcd = etcd_at(&args.etcd, args.etcd_tls.as_deref())?;
    let data = DataKey::read(&read(&args.keys.join("data-key"))?);
    let wrapped = WrappedKey::read(&read(&args.keys.join("wrapped-key"))?);
    let (Some(data), Some(wrapped)) = (data, wrapped) else {
        return Err(Failure(
            FAILED,
            "data-key has 32 bytes and wrapped-key 80".to_owned(),
        ));
    };
    let prefix = store::prefix(&args.store.prefix);
    let choices = Choices::new(Arc::clone(&store), &args.tenant, &prefix, data.clone());
    let options = Options {
        tenant: args.tenant,
        cluster: args.cluster.map(Id::number),
        prefix,
        keys: Keys { data, wrapped },
        settings: Settings {
            delta_every_ms: args.delta_ms,
            full_every_ms: args.full_seconds.saturating_mul(1000),
            retention: Retention {
                hours: args.keep_hours,
                days: args.keep_days,
                weeks: args.keep_weeks,
                months: args.keep_months,
            },
            ..Settings::default()
        },
        writer: args.writer,
        kubernetes: args.kubernetes,
        identity: identity::follow(args.identity),
    };
    let (stop, stopped) = watch::channel(false);
    let (mut end, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    tokio::spawn(async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stop.send(true);
    });
    let (progress, mut told) = watch::channel(Progress::default());
    let (questions, asked) = mpsc::channel(QUESTIONS);
    if let Some(address) = args.listen {
        let listener = tokio::net::TcpListener::bind(address).await?;
        tokio::spawn(report::serve(
            listener,
            told.clone(),
            questions,
            Arc::new(choices),
        ));
    }
    tokio::spawn(async move {
        while told.changed().await.is_ok() {
            let now = *told.borrow_and_update();
            tracing::debug!(durable = now.durable, deltas = now.deltas, "read back");
        }
    });
    let told = (progress, asked);
    let ended = engine::run(store, etcd, options, told, stopped).await;
    ended.map_err(|ended| match ended {
        Ended::Another => Failure(ANOTHER, ended.to_string()),
        Ended::OtherCluster { .. } | Ended::Tenant(_) => ended.into(),
    })
}

async fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.read.store)?;
    let reader = reader(&store, &args.read)?;
    let listing = reader.list().await?;
    let mut bad = 0;
    for full in listing.fulls.iter().rev() {
        match reader.verify(*full, &listing).await {
            Ok(reach) => say(&format!("{full}: whole, until revision {}", reach.revision))?,
            Err(reader::ReadError::Store(error)) => return Err(error.into()),
            Err(error) => {
                bad += 1;
                say(&format!("{full}: {error}"))?;
            }
        }
    }
    bad += identity::verify(&reader, &listing).await?;
    match (listing.fulls.len(), bad) {
        (0, _) => Err(Failure(FAILED, "there is no full snapshot".to_owned())),
        (_, 0) => Ok(()),
        (all, bad) => Err(Failure(
            FAILED,
            format!("{bad} of {all} full snapshots and their identity lead to damage"),
        )),
    }
}

async fn restore(args: RestoreArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.read.store)?;
    let reader = reader(&store, &args.read)?;
    let found = find(&reader, &args.at).await?;
    let (full, revision) = (found.full, found.revision);
    say(&format!(
        "full snapshot {full}, deltas until revision {revision}"
    ))?;
    if args.dry_run {
        return Ok(());
    }
    let (programs, scratch, member) = of(args.build);
    let built = restore::build(&reader, found, &programs, &scratch, &member).await?;
    say(&format!(
        "revision {}, {} of it replayed",
        built.revision, built.replayed
    ))
}

/// Programs, the folder for what is made on the way, and the member.
fn of(args: BuildArgs) -> (Programs, PathBuf, Member) {
    let programs = Programs {
        etcd: args.programs.join("etcd"),
        etcdutl: args.programs.join("etcdutl"),
    };
    let member = Member {
        data_dir: args.data_dir,
        name: args.member,
        peer_url: args.peer_url,
        initial_cluster: args.initial_cluster,
        token: args.initial_cluster_token,
        bump: args.bump,
    };
    (programs, args.scratch, member)
}

async fn salvage(args: SalvageArgs) -> Result<(), Failure> {
    let store = AnyStore::open(&args.read.store)?;
    let reader = reader(&store, &args.read)?;
    let (programs, scratch, member) = of(args.build);
    let made = survivors::salvage(&reader, &args.survivors, &programs, &scratch, &member).await?;
    for (survivor, candidate) in args.survivors.iter().zip(&made.candidates) {
        let survivor = survivor.display();
        say(&match candidate {
            Candidate::Reaches { own, whole } => format!(
                "{survivor}: revision {own}, and {whole} with what the backup has beyond it"
            ),
            Candidate::Unusable(why) => format!("{survivor}: not used: {why}"),
        })?;
    }
    say(&match made.backup {
        Some(revision) => format!("the backup alone: revision {revision}"),
        None => "the backup alone cannot be restored".to_owned(),
    })?;
    let of = match made.base {
        Base::Backup => "the backup".to_owned(),
        Base::Survivor(number) => match args.survivors.get(number) {
            Some(survivor) => survivor.display().to_string(),
            None => format!("directory {number}"),
        },
    };
    say(&format!("made of {of}: revision {}", made.revision))
}
