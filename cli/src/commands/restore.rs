//! `covey restore`: a tenant cluster brought back to a moment.
//!
//! Invariant: what is lost is said before, and asked for; without a terminal to ask at, and without `--yes`, nothing
//! begins. A dry one needs neither.

use api::restore::Moment;
use api::{ConditionType, Restore};
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::core::ApiResource;

use super::change::MANAGER;
use super::delete::is_confirmed;
use super::describe::find;
use super::wait::until;
use crate::args::Global;
use crate::args::backups::Restore as Args;
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::kinds::name_of;
use crate::output::{result, say};

pub(super) async fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace, name) = (&connection.client, &connection.namespace, &args.name);
    let cluster = find(client, namespace, name).await?;
    if cluster.spec.backup.is_none() {
        let what = format!("{name} has no backup that it could be brought back from");
        let mend = "set `spec.backup.target` of the TenantCluster; for a cluster that is gone see docs/operations.md, Restore";
        return Err(Failure::new(Exit::Refused, &what, mend));
    }
    if !args.dry_run {
        say(&lost(name, namespace, args));
        if !args.yes && !is_confirmed(name, "bring it back", "nothing was begun")? {
            return Err(Failure::new(Exit::Failed, "nothing was begun", ""));
        }
    }
    let restores: Api<Restore> = Api::namespaced(client.clone(), namespace);
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = restores.create(&params, &wanted(args)).await;
    let made = made.map_err(|error| {
        Failure::of(&format!("make a Restore of {name} in {namespace}"), &error)
    })?;
    let restore = made.name_any();
    result(&(name_of(&ApiResource::erase::<Restore>(&()), &restore) + "\n"))?;
    if !args.waiting.wait {
        if !global.quiet {
            say(&format!("how it goes: covey get restores {restore}"));
        }
        return Ok(Exit::Done);
    }
    let type_ = match args.dry_run {
        true => ConditionType::Possible,
        false => ConditionType::Restored,
    };
    let goal = Goal::Condition {
        type_: type_.as_str().to_owned(),
        status: "True".to_owned(),
    };
    until(&restores, &made, &goal, args.waiting.timeout, global).await
}

fn wanted(args: &Args) -> Restore {
    let is_now = args.to.is_none() && args.revision.is_none();
    let mut restore = Restore::new(
        "",
        api::RestoreSpec {
            cluster_name: args.name.clone(),
            at: (!is_now).then(|| Moment {
                time: args.to.clone(),
                revision: args.revision,
            }),
            dry_run: args.dry_run,
            ..api::RestoreSpec::default()
        },
    );
    restore.metadata = ObjectMeta {
        generate_name: Some(format!("{}-", args.name)),
        ..ObjectMeta::default()
    };
    restore
}

fn lost(name: &str, namespace: &str, args: &Args) -> String {
    let moment = match (&args.to, args.revision) {
        (Some(time), _) => time.clone(),
        (None, Some(revision)) => format!("revision {revision}"),
        (None, None) => "the newest moment that its backup has".to_owned(),
    };
    format!(
        "this brings TenantCluster {name} in {namespace} back to {moment}: what was written after that is lost, and its \
         API does not answer meanwhile; volumes of before are kept until the Restore is confirmed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args as All, Command};
    use clap::Parser as _;

    fn parsed(line: &str) -> Args {
        let all = All::try_parse_from(line.split(' ')).unwrap();
        let Command::Restore(args) = all.command else {
            panic!("{line}");
        };
        args
    }

    #[test]
    fn without_a_moment_it_is_the_newest() {
        assert_eq!(wanted(&parsed("covey restore demo")).spec.at, None);
        let at = wanted(&parsed("covey restore demo --revision 7")).spec.at;
        assert_eq!(at.unwrap().revision, Some(7));
        let said = lost(
            "demo",
            "team-a",
            &parsed("covey restore demo --to 2026-11-26T20:00:00Z"),
        );
        assert!(said.contains("back to 2026-11-26T20:00:00Z: what was written after that is lost"));
    }

    #[test]
    fn two_moments_are_refused() {
        let line = "covey restore demo --to 2026-11-26T20:00:00Z --revision 7";
        assert!(All::try_parse_from(line.split(' ')).is_err());
    }
}
