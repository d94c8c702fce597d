//! `covey kubeconfig`: a kubeconfig of a tenant cluster, in the name of whoever asks.
//!
//! Invariant: it has a secret only where that is asked for; it goes where it was asked to go, with a secret never onto a
//! terminal by accident, never over a file that is there, and into files that only their owner reads.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use api::TenantCluster;
use api::names::kubeconfig_secret;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;

use super::credential::{Wanted, obtain};
use super::describe::{find, readiness};
use crate::args::Global;
use crate::args::access::{GrantWanted, Kubeconfig};
use crate::connect::{Connection, connect};
use crate::credential;
use crate::exit::{Exit, Failure};
use crate::lead::{self, Lead, merge};
use crate::output::{result, say};

/// The key of the Secret, as Cluster API, Flux and Argo CD expect it.
const KEY: &str = "value";

pub(super) async fn run(global: &Global, args: &Kubeconfig) -> Result<Exit, Failure> {
    let name = args.name.as_deref().unwrap_or_default();
    let has_secret = args.embed || args.break_glass;
    // Before anything is asked: no secret is even read.
    if has_secret && args.file.is_none() && !args.merge && !args.show && io::stdout().is_terminal()
    {
        let what = "a kubeconfig with a key is a credential, and standard output is a terminal";
        let mend = format!("`--merge`, `--file {name}.kubeconfig`, redirect it, or say `--show`");
        return Err(Failure::new(Exit::Usage, what, &mend));
    }
    let connection = connect(global).await?;
    let namespace = &connection.namespace;
    let mut lead = Lead {
        management_context: None,
        namespace: namespace.clone(),
        name: name.to_owned(),
        uid: String::new(),
    };
    let text = match args.break_glass {
        true => {
            let (cluster, text) = administrators(&connection, name).await?;
            lead.uid = cluster.metadata.uid.unwrap_or_default();
            text
        }
        false => {
            let cluster = find(&connection.client, namespace, name).await?;
            lead.uid = cluster.metadata.uid.clone().unwrap_or_default();
            let of = (&cluster, &args.rights, args.embed);
            Box::pin(own(global, &connection, of, &lead)).await?
        }
    };
    match &args.file {
        Some(file) => write(file, &text)?,
        None if args.merge => {
            lead.management_context.clone_from(&connection.context);
            merge_into(args, &text, lead, global.quiet)?;
        }
        None => result(&text)?,
    }
    if !global.quiet {
        say(told(args));
        if args.rights.group.is_some() {
            say("what the group may lasts until the certificate ends, though the grant is revoked");
        }
        if let Some(file) = &args.file {
            say(&format!(
                "go on with: kubectl --kubeconfig {} get nodes",
                file.display()
            ));
        }
    }
    Ok(Exit::Done)
}

/// What whoever has the kubeconfig has to know.
fn told(args: &Kubeconfig) -> &'static str {
    match (args.break_glass, args.embed) {
        (true, _) => {
            "this kubeconfig is an administrator's: who has it can do anything in the tenant cluster; keep it as a secret"
        }
        (false, true) => {
            "this kubeconfig has a key in it: keep it as a secret; `covey kubeconfig revoke` ends its rights at once"
        }
        (false, false) => {
            "this kubeconfig has no secret: whoever uses it asks in their own name, by `covey` in their PATH"
        }
    }
}

/// A kubeconfig in the name of whoever asks. The certificate is asked for here and now, so that a right that lacks is said
/// to who can read it; it is kept for the first use.
pub(super) async fn own(
    global: &Global,
    connection: &Connection,
    (cluster, rights, embed): (&TenantCluster, &GrantWanted, bool),
    lead: &Lead,
) -> Result<String, Failure> {
    let endpoint = cluster.status.as_ref().and_then(|s| s.endpoint.as_ref());
    let Some(endpoint) = endpoint else {
        let what = format!("{} has no endpoint yet: {}", lead.name, readiness(cluster));
        let mend = format!(
            "`covey wait {}`, or `covey doctor {}`",
            lead.name, lead.name
        );
        return Err(Failure::new(Exit::NotFound, &what, &mend));
    };
    let server = endpoint.url();
    let wanted = Wanted {
        name: &lead.name,
        uid: &lead.uid,
        rights,
    };
    let kept = obtain(global, connection, &wanted).await?;
    let user = match embed {
        true => kept.embedded(),
        false => credential::asked(&arguments(global, connection, rights, lead)),
    };
    let context = format!("{}/{}", lead.namespace, lead.name);
    let extension = lead::extension(lead);
    credential::kubeconfig(&context, (&server, &kept.authority), &user, &extension)
}

/// The command that a kubeconfig has in it.
fn arguments(
    global: &Global,
    connection: &Connection,
    rights: &GrantWanted,
    lead: &Lead,
) -> Vec<String> {
    let mut args = ["credential", "get"].map(str::to_owned).to_vec();
    let mut flag = |name: &str, value: &str| {
        args.extend([format!("--{name}"), value.to_owned()]);
    };
    // Only where it was named: the file may go to another machine.
    if let Some(path) = &global.kubeconfig {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        flag("kubeconfig", &path.to_string_lossy());
    }
    if let Some(context) = &connection.context {
        flag("context", context);
    }
    let ttl = format!("{}s", rights.ttl.as_secs());
    for (name, value) in [
        ("namespace", lead.namespace.as_str()),
        ("cluster", lead.name.as_str()),
        ("uid", lead.uid.as_str()),
        ("profile", rights.profile.as_str()),
        ("ttl", ttl.as_str()),
    ] {
        flag(name, value);
    }
    for (name, value) in [
        ("user", &rights.user),
        ("group", &rights.group),
        ("as", &global.as_user),
    ] {
        if let Some(value) = value {
            flag(name, value);
        }
    }
    for group in &global.as_group {
        flag("as-group", group);
    }
    if rights.token {
        args.push("--token".to_owned());
    }
    args
}

/// The tenant cluster and the kubeconfig of its administrator, from its Secret.
pub(super) async fn administrators(
    connection: &Connection,
    name: &str,
) -> Result<(TenantCluster, String), Failure> {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let cluster = find(client, namespace, name).await?;
    let status = cluster.status.as_ref();
    let named = status.and_then(|status| status.kubeconfig_secret.clone());
    let secret = named.unwrap_or_else(|| kubeconfig_secret(name));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let act = format!("get the Secret {secret} in {namespace}");
    let found = secrets.get_opt(&secret).await;
    let found = found.map_err(|error| Failure::of(&act, &error))?;
    let Some(text) = found.as_ref().and_then(content) else {
        let what = format!("{name} has no kubeconfig yet: {}", readiness(&cluster));
        let mend = format!("`covey wait {name}`, or `covey doctor {name}`");
        return Err(Failure::new(Exit::NotFound, &what, &mend));
    };
    let text = text.to_owned();
    Ok((cluster, text))
}

/// Adds the context to the user's kubeconfig.
fn merge_into(
    args: &Kubeconfig,
    admin: &str,
    mut lead: Lead,
    is_quiet: bool,
) -> Result<(), Failure> {
    let context = format!("{}/{}", lead.namespace, lead.name);
    let context = args.context_name.clone().unwrap_or(context);
    let path = own_file()?;
    let existing = match fs::read_to_string(&path) {
        Ok(existing) => existing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unwritten(&path, &error)),
    };
    // A context of another file is none to go back to.
    let is_there = |name: &String| {
        let read = kube::config::Kubeconfig::from_yaml(&existing);
        read.is_ok_and(|all| all.contexts.iter().any(|context| context.name == *name))
    };
    lead.management_context = lead.management_context.filter(is_there);
    let merged = merge(&existing, admin, &context, &lead, args.set_current)?;
    replace(&path, &merged).map_err(|error| unwritten(&path, &error))?;
    if !is_quiet {
        say(&format!("{} has the context {context}", path.display()));
    }
    Ok(())
}

/// The file that kubectl writes: the first of KUBECONFIG, else `~/.kube/config`; what a link leads to.
fn own_file() -> Result<PathBuf, Failure> {
    let named = env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    let mut named = named.iter().flat_map(|paths| env::split_paths(paths));
    let first = named.find(|path| !path.as_os_str().is_empty());
    let home = || env::home_dir().map(|home| home.join(".kube/config"));
    let path = first.or_else(home).ok_or_else(|| {
        let what = "KUBECONFIG is unset, and there is no home directory";
        Failure::new(Exit::Failed, what, "use `--file`")
    })?;
    Ok(fs::canonicalize(&path).unwrap_or(path))
}

/// Writes beside the file and renames, so that nobody reads half of it; mode 0600.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.unwrap_or("config");
    let beside = folder.join(format!(".{name}.covey-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&beside, path));
    if renamed.is_err() {
        // What is left of it has a key in it.
        let _ = fs::remove_file(&beside);
    }
    renamed
}

fn content(secret: &Secret) -> Option<&str> {
    let value = secret.data.as_ref()?.get(KEY)?;
    std::str::from_utf8(&value.0).ok()
}

/// Writes a file that was not there before, mode 0600.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write {}: {error}", path.display());
    let mend = match error.kind() {
        io::ErrorKind::AlreadyExists => "name another `--file`, or remove that one",
        _ => "name a `--file` in a folder that you may write to",
    };
    Failure::new(Exit::Failed, &what, mend)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kube/config");
        replace(&path, "a").unwrap();
        replace(&path, "b").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "b");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let files = fs::read_dir(path.parent().unwrap()).unwrap();
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn the_file_is_the_owners_alone_and_none_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.kubeconfig");
        write(&path, "a").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let failure = write(&path, "b").unwrap_err();
        assert!(failure.mend.contains("--file"), "{failure}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a");
    }
}
