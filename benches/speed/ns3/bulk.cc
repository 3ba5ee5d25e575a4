// Simulates one bulk TCP transfer, to measure the speed of ns-3.
//
//   bulk SEED SECONDS [count|checksum]
//
// The network is that of ../ns2/bulk.tcl: 100 Mbit/s, 10 ms each way, a
// drop-tail queue of 1000 packets, 0.1 % of the data packets lost on the wire,
// packets of 1500 bytes. TCP is NewReno with SACK and acknowledges every second
// segment. "count" prints the number of packets that both ends have sent.
// "checksum" makes ns-3 compute the checksums that it omits by default.
// ../README.md says how to build this program.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <cstring>
#include <iostream>

using namespace ns3;

static uint64_t transmissions = 0;

static void
Sent(Ptr<const Packet>)
{
    transmissions++;
}

int
main(int argc, char** argv)
{
    if (argc < 3)
    {
        std::cerr << "usage: bulk SEED SECONDS [count|checksum]\n";
        return 2;
    }
    const bool count = argc > 3 && !std::strcmp(argv[3], "count");
    const bool checksum = argc > 3 && !std::strcmp(argv[3], "checksum");
    const double seconds = std::atof(argv[2]);
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(std::atoi(argv[1]));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(checksum));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));

    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    link.SetChannelAttribute("Delay", StringValue("10ms"));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000p"));
    NetDeviceContainer devices = link.Install(nodes);
    auto loss = CreateObject<RateErrorModel>();
    loss->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    loss->SetRate(0.001);
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(loss));

    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    InetSocketAddress target(interfaces.GetAddress(1), 80);
    BulkSendHelper source("ns3::TcpSocketFactory", target);
    source.Install(nodes.Get(0)).Start(Seconds(0));
    PacketSinkHelper sink("ns3::TcpSocketFactory", target);
    sink.Install(nodes.Get(1)).Start(Seconds(0));

    if (count)
    {
        for (uint32_t i = 0; i < 2; i++)
        {
            devices.Get(i)->TraceConnectWithoutContext("PhyTxBegin", MakeCallback(&Sent));
        }
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Simulator::Destroy();
    if (count)
    {
        std::cout << transmissions << "\n";
    }
    return 0;
}
