//! A chat room: each person receives the texts of the others, and is told who joins, who leaves, and whose network path
//! has trouble.
//!
//! `cargo run -p anabranch-tokio --example chat` runs the room and three people on loopback. Across a network, run
//! `chat room ADDRESS[,ADDRESS] UDP-PORT` on one host and `chat join ADDRESS[,ADDRESS] UDP-PORT NAME` on all other
//! hosts.

use anabranch_tokio::{Association, Endpoint, Event, Options, SendOptions};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// The SCTP port. Its packets are carried in UDP.
const PORT: u16 = 5222;

/// The kinds of messages, each with its payload protocol identifier.
mod kind {
    /// A person's name, sent once as an ordered message.
    pub(crate) const NAME: u32 = 1;
    /// A line of text, sent as an ordered message.
    pub(crate) const LINE: u32 = 2;
    /// The person is typing. Sent as an unordered message, and abandoned after a second.
    pub(crate) const TYPING: u32 = 3;
}

/// All people in the room, by their number.
type People = Arc<Mutex<BTreeMap<u64, Association>>>;

fn line() -> SendOptions {
    SendOptions::new().ppid(kind::LINE)
}

fn typing() -> SendOptions {
    SendOptions::new().ppid(kind::TYPING).unordered(true).lifetime(Duration::from_secs(1))
}

/// Passes the texts of each person on to the others, until the endpoint ends.
async fn room(endpoint: Endpoint) {
    let people = People::default();
    let mut number = 0;
    while let Some(incoming) = endpoint.accept().await {
        if people.lock().expect("nobody panics").len() >= 1000 {
            incoming.refuse_with_reason("the room is full");
            continue;
        }
        number += 1;
        let Ok(association) = incoming.accept() else { continue };
        people.lock().expect("nobody panics").insert(number, association.clone());
        let people = people.clone();
        tokio::spawn(async move {
            listen_to(number, &association, &people).await;
            people.lock().expect("nobody panics").remove(&number);
        });
    }
}

async fn listen_to(number: u64, association: &Association, people: &People) {
    let mut name = format!("guest {number}");
    while let Ok(message) = association.recv().await {
        let text = String::from_utf8_lossy(&message.bytes);
        match message.ppid {
            kind::NAME => {
                name = text.into_owned();
                tell_others(number, people, &format!("{name} has come"), &line());
            }
            kind::LINE => tell_others(number, people, &format!("{name}: {text}"), &line()),
            kind::TYPING => tell_others(number, people, &format!("{name} is typing"), &typing()),
            _ => {}
        }
    }
    tell_others(number, people, &format!("{name} has gone"), &line());
}

/// Sends a text to everybody except its author. The room does not wait for people who do not read: a text that does not
/// fit into the send buffer for a person is not sent to that person.
fn tell_others(from: u64, people: &People, text: &str, options: &SendOptions) {
    for (_, other) in people.lock().expect("nobody panics").iter().filter(|(number, _)| **number != from) {
        let _ = other.try_send(0, text, options);
    }
}

/// Joins the room.
async fn join(endpoint: &Endpoint, room: &[SocketAddr], name: &str) -> Result<Association, Box<dyn Error>> {
    let association = endpoint.connect(room, PORT).await?;
    association.send(0, name, &SendOptions::new().ppid(kind::NAME)).await?;
    Ok(association)
}

/// Prints messages and events.
async fn print_all(association: Association) {
    let mut events = association.events();
    loop {
        tokio::select! {
            message = association.recv() => match message {
                Ok(message) => println!("{}", String::from_utf8_lossy(&message.bytes)),
                Err(why) => return println!("the chat is over: {why}"),
            },
            Some(event) = events.next() => match event {
                Event::PathUp(address) => println!("(the path to {address} works)"),
                Event::PathPotentiallyFailed(address) | Event::PathDown(address) => {
                    println!("(the path to {address} has failed)");
                }
                _ => {}
            },
        }
    }
}

/// Runs the chat room and three of its members on loopback. Returns the texts that the first member received.
pub async fn on_loopback() -> Result<Vec<String>, Box<dyn Error>> {
    let both: [IpAddr; 2] = ["127.0.0.1".parse()?, "127.0.0.2".parse()?];
    let server = Endpoint::new(Options::default().addresses(both).listen(PORT)).await?;
    let at = server.local_addresses().to_vec();
    tokio::spawn(room(server.clone()));
    let client = Endpoint::new(Options::default().addresses(both)).await?;
    let ann = join(&client, &at, "Ann").await?;
    let mut heard = Vec::new();
    for name in ["Bob", "Cid"] {
        let other = join(&client, &at, name).await?;
        other.send(0, "hello", &line()).await?;
        for _ in 0..2 {
            heard.push(String::from_utf8(ann.recv().await?.bytes.to_vec())?);
        }
        other.close();
        other.closed().await;
        heard.push(String::from_utf8(ann.recv().await?.bytes.to_vec())?);
    }
    ann.close();
    client.wait_idle().await;
    Ok(heard)
}

fn addresses(list: &str) -> Result<Vec<IpAddr>, Box<dyn Error>> {
    Ok(list.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    match given[..] {
        ["room", here, port] => {
            let options = Options::default().addresses(addresses(here)?).udp(port.parse()?).listen(PORT);
            room(Endpoint::new(options).await?).await;
        }
        ["join", there, port, name] => {
            let port = port.parse()?;
            let at: Vec<_> = addresses(there)?.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
            let endpoint = Endpoint::new(Options::default()).await?;
            let association = join(&endpoint, &at, name).await?;
            tokio::spawn(print_all(association.clone()));
            let mut lines = BufReader::new(tokio::io::stdin()).lines();
            while let Some(text) = lines.next_line().await? {
                association.try_send(0, "", &typing()).ok();
                if !text.is_empty() {
                    association.send(0, text, &line()).await?;
                }
            }
            association.close();
            endpoint.wait_idle().await;
        }
        [] => on_loopback().await?.iter().for_each(|line| println!("{line}")),
        _ => return Err("usage: chat [room ADDRESSES UDP-PORT | join ADDRESSES UDP-PORT NAME]".into()),
    }
    Ok(())
}
