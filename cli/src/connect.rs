//! The client of the management cluster's API, from a kubeconfig and a context.
//!
//! Invariant: nothing is read before a command needs it; every answer is bounded in time and bytes; a request is sent
//! once, because somebody who waits wants to know.

use std::env;
use std::path::PathBuf;

use http::header::AUTHORIZATION;
use kit_client::body_limit::{BodyLimitLayer, BodyLimits, ByteCounter};
use kit_client::crypto::install_crypto;
use kit_client::deadline::DeadlineLayer;
use kit_client::errors::chain;
use kit_client::transport::transport;
use kube::client::{Body, ConfigExt as _};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder, ServiceExt as _, service_fn};

use crate::args::Global;
use crate::exit::{Exit, Failure};
use crate::lead;
use crate::verbose::Told;

/// Bytes of one answer: a page of 500 objects.
const ANSWER: u64 = 32 << 20;
/// Bytes of all answers of one command.
const ALL: u64 = 256 << 20;

/// A client, and the namespace that is meant where none is named.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// The context that was taken; none in a pod.
    pub(crate) context: Option<String>,
    /// Address of the management cluster's API.
    pub(crate) server: String,
}

/// The client that the flags describe. Nothing is sent yet.
pub(crate) async fn connect(global: &Global) -> Result<Connection, Failure> {
    let (mut config, context) = config(global).await?;
    if let Some(user) = &global.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(global.as_group.clone());
    }
    let namespace = global.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = bounded(&config, global)?;
    Ok(Connection {
        client,
        namespace,
        context,
        server: config.cluster_url.to_string(),
    })
}

/// A client whose answers are bounded in time and bytes.
fn bounded(config: &Config, global: &Global) -> Result<Client, Failure> {
    let unusable = |error: &kit_client::error::Error| {
        let mend = "look at `kubectl config view --minify`, or choose another `--context`";
        Failure::new(Exit::Failed, &chain(error), mend)
    };
    let transport = transport(config).map_err(|error| unusable(&error))?;
    let limits = BodyLimits {
        answer: ANSWER,
        ..BodyLimits::default()
    };
    let service = ServiceBuilder::new()
        .layer(BodyLimitLayer::new(limits, ByteCounter::new(ALL)))
        .layer(DeadlineLayer::new(global.request_timeout))
        .service(transport);
    let service = Told::new(service, global.verbose);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// A client by which ports are forwarded: what is forwarded needs HTTP/1.1, and lasts as long as it does.
pub(crate) async fn upgradable(global: &Global) -> Result<Client, Failure> {
    let (mut config, _) = config(global).await?;
    if let Some(user) = &global.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(global.as_group.clone());
    }
    config.read_timeout = None;
    config.write_timeout = None;
    install_crypto();
    let client = Client::try_from(config);
    client.map_err(|error| Failure::of("make a client", &error))
}

/// The token by which the user of the context logs in; None where it logs in by something else.
pub(crate) async fn token(global: &Global) -> Result<Option<String>, Failure> {
    let (config, _) = config(global).await?;
    let mend = "look at the user of this context: `kubectl config view --minify`";
    let failed = |error: &dyn std::fmt::Display| {
        let what = format!("cannot get the token of this context: {error}");
        Failure::new(Exit::Failed, &what, mend)
    };
    let layer = config.auth_layer().map_err(|error| failed(&error))?;
    // What is sent by it otherwise: tokens of files and programs are as fresh as those.
    let sent = service_fn(|request: http::Request<Body>| async move {
        let header = request.headers().get(AUTHORIZATION).cloned();
        Ok::<_, BoxError>(http::Response::new(header))
    });
    let service = ServiceBuilder::new().option_layer(layer).service(sent);
    let request = http::Request::new(Body::empty());
    let header = service
        .oneshot(request)
        .await
        .map_err(|error| failed(&error))?;
    let header = header.body().as_ref();
    let header = header.and_then(|header| header.to_str().ok());
    Ok(header.and_then(|text| Some(text.strip_prefix("Bearer ")?.to_owned())))
}

/// The client of a tenant cluster's API, from its kubeconfig. Nothing is sent yet.
pub(crate) async fn inside_of(kubeconfig: &str, global: &Global) -> Result<Client, Failure> {
    // The error may quote the text, which has keys in it.
    let unread = || {
        let what = "the kubeconfig of the tenant cluster cannot be read";
        let mend = "`covey doctor` says whether the operator can write it anew";
        Failure::new(Exit::Failed, what, mend)
    };
    let read = Kubeconfig::from_yaml(kubeconfig).map_err(|_| unread())?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await;
    bounded(&config.map_err(|_| unread())?, global)
}

/// The kubeconfig that the flags name, where it can be read.
pub(crate) fn kubeconfig(global: &Global) -> Option<Kubeconfig> {
    let read = match &global.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    read.ok()
}

/// A client of the API that a context leads to, without the context's credential. Nothing is sent yet.
pub(crate) async fn nobody(
    kubeconfig: Kubeconfig,
    context: &str,
    global: &Global,
) -> Result<Client, Failure> {
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| {
        let what = format!("the context {context} cannot be used: {}", chain(&error));
        Failure::new(Exit::Failed, &what, "look at `kubectl config view`")
    })?;
    config.auth_info = AuthInfo::default();
    bounded(&config, global)
}

async fn config(global: &Global) -> Result<(Config, Option<String>), Failure> {
    let read = match &global.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let found = match read {
        Ok(kubeconfig) => {
            let context = chosen(global, &kubeconfig)?;
            let options = KubeConfigOptions {
                context: context.clone(),
                ..KubeConfigOptions::default()
            };
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            config.map(|config| (config, context))
        }
        Err(error) => Err(error),
    };
    let error = match found {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    let is_named = global.kubeconfig.is_some() || global.context.is_some();
    if !is_named && let Ok(config) = Config::incluster() {
        return Ok((config, None));
    }
    let what = format!(
        "no kubeconfig that can be used ({}): {}",
        looked(global),
        chain(&error)
    );
    let mend = "name one with `--kubeconfig FILE`, or a context of `kubectl config get-contexts` with `--context`";
    Err(Failure::new(Exit::Failed, &what, mend))
}

/// The context that is meant: of one that leads into a tenant cluster the one that it was made from.
fn chosen(global: &Global, kubeconfig: &Kubeconfig) -> Result<Option<String>, Failure> {
    if global.context.is_some() {
        return Ok(global.context.clone());
    }
    let Some(lead) = lead::current(kubeconfig) else {
        return Ok(kubeconfig.current_context.clone());
    };
    if lead.management_context.is_some() {
        return Ok(lead.management_context);
    }
    let what = format!(
        "the current context leads into the tenant cluster {}",
        lead.name
    );
    let mend = "name the management cluster's context with `--context`";
    Err(Failure::new(Exit::Failed, &what, mend))
}

/// Where a kubeconfig was looked for, and whether there was one.
fn looked(global: &Global) -> String {
    if let Some(path) = &global.kubeconfig {
        return format!("--kubeconfig {}", path.display());
    }
    if let Some(paths) = env::var_os("KUBECONFIG").filter(|value| !value.is_empty()) {
        return format!("KUBECONFIG is {}", PathBuf::from(paths).display());
    }
    let home = env::home_dir().map(|home| home.join(".kube/config"));
    match home {
        Some(path) if path.exists() => format!("KUBECONFIG is unset, {}", path.display()),
        Some(path) => format!("KUBECONFIG is unset, {} is absent", path.display()),
        None => "KUBECONFIG is unset, and there is no home directory".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::Parser as _;
    use serde_json::json;

    /// The token of a kubeconfig with this user.
    async fn of_user(user: serde_json::Value) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "jane"}}],
            "users": [{"name": "jane", "user": user}]});
        std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
        let path = file.path().to_str().unwrap();
        let args = ["covey", "dashboard", "--kubeconfig", path];
        token(&Args::try_parse_from(args).unwrap().global)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn the_token_is_the_one_that_the_api_would_get() {
        assert_eq!(
            of_user(json!({"token": "sesame"})).await.as_deref(),
            Some("sesame")
        );
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": "sesame-exec"}});
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "echo",
            "args": [credential.to_string()], "interactiveMode": "Never"});
        assert_eq!(
            of_user(json!({ "exec": exec })).await.as_deref(),
            Some("sesame-exec")
        );
        let password = json!({"username": "jane", "password": "sesame"});
        assert_eq!(of_user(password).await, None);
        assert_eq!(of_user(json!({})).await, None);
    }
}
