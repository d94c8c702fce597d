//! Where a kubeconfig leads, and the same kubeconfig by way of a port here.
//!
//! Invariant: pure. Nothing but the address is changed: the server is believed by the same authority and by the same name.

use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// Port of a URL of https that names none.
const HTTPS: u16 = 443;

/// Host (of IPv6 without brackets) and port of the server.
pub(crate) fn server(kubeconfig: &str) -> Result<(String, u16), Failure> {
    let all = read(kubeconfig)?;
    let server = all["clusters"][0]["cluster"]["server"].as_str();
    let server = server.ok_or_else(|| unread("it names no server"))?;
    let server: http::Uri = server.parse().map_err(|_| unread("its server is no URL"))?;
    let host = server
        .host()
        .ok_or_else(|| unread("its server has no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok((host.to_owned(), server.port_u16().unwrap_or(HTTPS)))
}

/// The kubeconfig with the server at a port of this machine.
pub(crate) fn through(kubeconfig: &str, port: u16) -> Result<String, Failure> {
    let (host, _) = server(kubeconfig)?;
    let mut all = read(kubeconfig)?;
    let cluster = &mut all["clusters"][0]["cluster"];
    cluster["server"] = json!(format!("https://127.0.0.1:{port}"));
    if cluster["tls-server-name"].is_null() {
        cluster["tls-server-name"] = json!(host);
    }
    serde_saphyr::to_string(&all).map_err(|_| unread("it cannot be written anew"))
}

fn read(kubeconfig: &str) -> Result<Value, Failure> {
    match serde_saphyr::from_str::<Value>(kubeconfig) {
        Ok(all) if all["clusters"][0]["cluster"].is_object() => Ok(all),
        // The error may quote the text, which has keys in it.
        Ok(_) | Err(_) => Err(unread("it has no cluster")),
    }
}

fn unread(why: &str) -> Failure {
    let what = format!("the kubeconfig of the tenant cluster cannot be used: {why}");
    let mend = "`covey doctor` says whether the operator can write it anew";
    Failure::new(Exit::Failed, &what, mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(server: &str) -> String {
        format!(
            "clusters:\n- name: demo\n  cluster: {{server: \"{server}\", certificate-authority-data: QUFB}}\n\
users:\n- name: demo-admin\n  user: {{client-key-data: QkJC}}\n"
        )
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        for (url, host, port) in [
            ("https://10.96.3.7:6443", "10.96.3.7", 6443),
            ("https://demo.example.com", "demo.example.com", 443),
            ("https://[2001:db8::7]:6443", "2001:db8::7", 6443),
        ] {
            assert_eq!(server(&kubeconfig(url)), Ok((host.to_owned(), port)));
        }
        for bad in ["clusters: []", "a: [", "- a", "clusters: [{cluster: {}}]"] {
            let failure = server(bad).unwrap_err();
            assert!(failure.what.contains("cannot be used"), "{failure}");
        }
    }

    #[test]
    fn by_way_of_a_port_the_server_is_believed_by_its_own_name() {
        let through = through(&kubeconfig("https://10.96.3.7:6443"), 40123).unwrap();
        let read: Value = serde_saphyr::from_str(&through).unwrap();
        let cluster = &read["clusters"][0]["cluster"];
        assert_eq!(cluster["server"], "https://127.0.0.1:40123");
        assert_eq!(cluster["tls-server-name"], "10.96.3.7");
        assert_eq!(cluster["certificate-authority-data"], "QUFB");
        assert_eq!(read["users"][0]["user"]["client-key-data"], "QkJC");
    }
}
