//! Nothing is written when nothing changes.

use anyhow::Result;
use serde_json::json;

use crate::support::{Ccm, Environment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_and_a_sweep_of_what_is_settled_write_nothing() -> Result<()> {
    let Some(environment) = Environment::new("quiet").await? else {
        return Ok(());
    };
    let ccm = Ccm::start(&environment)?;
    environment.worker("a", &["10.5.0.1"]).await?;
    let mut names = Vec::new();
    for number in 0..5 {
        let service = environment
            .service(&format!("web-{number}"), &json!({}))
            .await?;
        let name = environment.mirror_name(&service);
        environment.ready(&name, &["10.5.0.1"]).await?;
        let ip = format!("192.0.2.{number}");
        environment.allocate(&name, &json!([{ "ip": ip }])).await?;
        environment
            .addresses(&format!("web-{number}"), &[&ip])
            .await?;
        names.push(name);
    }
    ccm.rest().await;
    let windows = [
        (environment.management.audit().window()?, environment.user()),
        (
            environment.tenant.audit().window()?,
            environment.tenant_user(),
        ),
    ];
    drop(ccm);
    let ccm = Ccm::start(&environment)?;
    ccm.rest().await;
    ccm.rest().await;
    for (window, user) in &windows {
        window.assert_no_writes(user)?;
        assert!(
            window.entries()?.iter().any(|e| e.user == *user),
            "it looked"
        );
    }
    Ok(())
}
