T='''"tcp-linux=tcp:profile=linux-2.6,per-object=yes,fin=alone,byte-cost=6ns,request-cost=400us"'''
S1='''"sctp-1=sctp:profile=lksctp-2.6,per-object=yes,streams=1,byte-cost=20ns,request-cost=400us"'''
S=lambda n,extra='',name=None: f'''"{name or 'sctp-%d'%n}=sctp:profile=lksctp-2.6,streams={n}{extra},byte-cost=20ns,request-cost=400us"'''
ALL=[T,S1,S(10),S(50)]
def table(name,title,source,plan,transports=ALL,metric="net-io",unit="KB/s (1 KB = 1024 bytes) as httperf prints Net I/O",runs=50,quick=5,extra='',rig=True,comment=''):
    t=f'{comment}title = "{title}"\nsource = "{source}"\nunit = "{unit}"\nmetric = "{metric}"\n'
    if rig: t+='heads = 309\n'
    t+=extra+f'runs = {runs}\nquick_runs = {quick}\n\n[plan]\ntransport = [\n'+''.join(f'  {x},\n' for x in transports)+']\n'
    p={}
    if rig:
        p.update({'rate':'"unlimited"','rtt':'"40us"','mtu':'"16436"','queue':'"unlimited"','loss':'["0", "nth:10/shared"]',
        'objects':'["50x100B", "50x1KiB", "50x10KiB", "50x100KiB", "50x1MiB", "50x10MiB"]',
        'request-head':'"64B"','response-head':'"245B"','arrivals':'"25/s"','arrivals-of':'"connections"','timeout':'"15s"'})
    p.update(plan)
    t+=''.join(f'{k} = {v}\n' for k,v in p.items() if v is not None)
    open(name+'.toml','w').write(t)

arith=''.join(f'  {{ contestant = "{c}", objects = "{o}", loss = "0" }},\n' for c in ('tcp-linux','sctp-1') for o in ('50x100B','50x1KiB','50x10KiB','50x100KiB','50x1MiB'))
arith+=''.join(f'  {{ contestant = "sctp-10", objects = "{o}", loss = "0" }},\n' for o in ('50x100B','50x1KiB','50x10KiB'))
cal='''calibrated = [
  { contestant = "tcp-linux", objects = "50x10MiB", loss = "0" },
  { contestant = "sctp-10", objects = "50x10MiB", loss = "0" },
  { contestant = "sctp-50", objects = "50x100B", loss = "0" },
]
'''
cal='calibrated = [\n  { contestant = "tcp-linux", objects = "50x10MiB" },\n  { contestant = "sctp-10", objects = "50x10MiB" },\n  { contestant = "sctp-50", objects = "50x100B" },\n]\n'
arith=arith.replace(', loss = "0"','')
table('every-tenth','throughput of 50 requests, 25 connections a second, over loopback, every tenth packet dropped','tables 1 to 4, every 10th dropped',{'loss':'"nth:10/shared"'},
  extra='averaged = 5\nrows = ["objects"]\n',runs=100,quick=10,
  comment='# The seed chooses which of the first ten packets is dropped; table "phases" runs all ten.\n')
table('no-drops','the same where no packet is dropped','tables 1 to 4, no dropped packets',{'loss':'"0"'},
  extra='averaged = 5\nrows = ["objects"]\n'+cal+'arithmetic = [\n'+arith+']\n',runs=1,quick=1)
table('falls','both, for what the drops take: the Diff columns of tables 1 to 4','the Diff columns of tables 1 to 4',{},
  runs=50,quick=6,comment="""# Printed percentages that do not follow from their cells: fifty streams, 100 bytes -80.1 (cells -80.8), 1 KB +43.2
# (+143.2), 10 KB -92.3 (-92.9); ten streams, 1 MB -93.1 (-93.0). The other 20 do. Claims are held to the cells.
""")
table('mtu-1500','every tenth packet dropped, with an MTU of 1500 in the place of 16436, sizes up to 1 MB','tables 1 to 4, every 10th dropped: another reading of the rig',
  {'mtu':'"1500"','loss':'"nth:10/shared"','objects':'["50x100B", "50x1KiB", "50x10KiB", "50x100KiB", "50x1MiB"]'},
  extra='averaged = 5\nrows = ["objects"]\n',runs=50,quick=8)
ph='['+', '.join(f'"nth:10/first={k}/shared"' for k in range(1,11))+']'
table('phases','each of the ten packets that the drop can begin with','section 3.2.1; an experiment of ours',
  {'loss':ph,'objects':'["50x100B", "50x1KiB", "50x10KiB"]'},runs=1,quick=1)
table('slow-cell','fifty streams, 1 MB, every tenth packet dropped: all ten first packets','table 4; an experiment of ours',
  {'loss':ph,'objects':'"50x1MiB"'},transports=[S(50)],metric='last-answer',unit='seconds until the last answer',runs=1,quick=1)
table('ten-packets','TCP connections of nine, ten and eleven packets: each of the ten packets that the drop can begin with','table 1; an experiment of ours',
  {'loss':ph,'objects':'["50x100B", "50x1KiB"]','server-time':'"2ms"'},
  transports=[T.replace('fin=alone','fin=data').replace('tcp-linux=','tcp-9='),T.replace('fin=alone','fin=alone,quickack=0,delack=1ms').replace('tcp-linux=','tcp-10='),T.replace('tcp-linux=','tcp-11=')],
  metric='last-answer',unit='seconds until the last answer',runs=1,quick=1)
table('equal-arrivals','one request each 40 ms for every contestant','expectations 3 and 5 (section 3.4.1); an experiment of ours: in print fewer arrivals look like faster streams',
  {'arrivals-of':'"objects"','objects':'["50x100B", "50x1KiB", "50x10KiB", "50x100KiB", "50x1MiB"]'},
  metric='object-mean',unit='seconds from request to answer, mean over the objects',runs=50,quick=5)
table('streams-alone','one association, the number of streams alone varied; the requests are sent in the same order','expectation 5 (section 3.4.1); an experiment of ours',
  {'arrivals-of':'"objects"','objects':'["50x1KiB", "50x10KiB", "50x100KiB", "50x1MiB"]'},
  transports=[S(n,',when-full=rr') for n in (1,10,50)],
  metric='object-mean',unit='seconds from request to answer, mean over the objects',runs=50,quick=10)
table('loss-models','every tenth packet of both directions, every tenth of each, one in ten at random','expectation 2 (section 3.4.1); an experiment of ours',
  {'loss':'["nth:10/shared", "nth:10", "10%"]','objects':'["50x1KiB", "50x100KiB"]'},runs=100,quick=20)
table('overflow','no packet dropped by a filter: a link of 10 Mbit/s with 20 packets of queue, shared with five downloads','expectation 2 (section 3.4.1); an experiment of ours',
  {'rate':'"10mbit"','rtt':'"20ms"','mtu':'"1500"','queue':'"20p"','loss':'"0"','objects':'["50x1KiB", "50x100KiB"]','cross':'"tcp:flows=5"','deadline':'"120s"'},runs=30,quick=3)
table('arrivals','other rates of arrival, nothing dropped','expectation 3 (section 3.4.1); an experiment of ours',
  {'arrivals':'["5/s", "25/s", "100/s", "1000/s"]','loss':'"0"','objects':'["50x10KiB", "50x10MiB"]'},transports=[T,S1],
  metric='object-mean',unit='seconds from request to answer, mean over the objects',runs=1,quick=1)
d=lambda x,n,f,c: x.replace(n+'=',n+'-'+f+'=').replace(*c)
table('one-host','client and server on a processor each, and on one that is half as fast for each of them','expectation 4 (section 3.4.1); an experiment of ours',
  {'loss':'"0"'},transports=[d(T,'tcp-linux','two',('x','x')),d(T,'tcp-linux','one',('byte-cost=6ns,request-cost=400us','byte-cost=12ns,request-cost=800us')),d(S1,'sctp-1','two',('x','x')),d(S1,'sctp-1','one',('byte-cost=20ns,request-cost=400us','byte-cost=40ns,request-cost=800us'))],runs=1,quick=1)
table('timeouts','other timeouts of the client','section 3.5.2; an experiment of ours',
  {'timeout':'["5s", "15s", "60s"]','loss':'"nth:10/shared"','objects':'["50x1KiB", "50x100KiB"]'},transports=[T,S1],runs=50,quick=10)
table('request-counts','other numbers of requests','section 3.5.2; an experiment of ours',
  {'objects':'["25x1KiB", "50x1KiB", "200x1KiB"]'},transports=[T,S1],runs=50,quick=10)
table('two-hosts','the same requests between two hosts on Ethernet of 100 Mbit/s','section 3.5.1; an experiment of ours',
  {'rate':'"100mbit"','rtt':'"300us"','mtu':'"1500"','queue':'"100p"','objects':'["50x100B", "50x1KiB", "50x10KiB", "50x100KiB"]'},runs=30,quick=5)
w={'rate':'"10mbit"','rtt':'"80ms"','queue':'"1bdp"'}
table('pages','a page over HTTP/1.0, and over one connection without and with pipelining','sections 3.1 and 3.2.2, figures 1 and 2; the network is ours',
  {**w,'loss':'"0"','page':'["osterdahl-news", "osterdahl-gallery"]'},
  transports=['"http-1-0=tcp:profile=linux-2.6,per-object=yes"','"persistent=tcp:profile=linux-2.6,connections=1,pipeline=no"','"pipelined=tcp:profile=linux-2.6,connections=1,pipeline=yes"'],
  metric='page',unit='seconds until the page is there',runs=1,quick=1,rig=False)
table('objects','a connection for each object, and one for all, for pages of 2 to 40 objects','section 3.1; the network is ours',
  {**w,'loss':'"0"','objects':'["2x5kB", "10x5kB", "40x5kB"]'},
  transports=['"http-1-0=tcp:profile=linux-2.6,per-object=yes"','"persistent=tcp:profile=linux-2.6,connections=1,pipeline=no"','"pipelined=tcp:profile=linux-2.6,connections=1,pipeline=yes"'],
  metric='page',unit='seconds until the page is there',runs=1,quick=1,rig=False)
table('redesign','a page over TCP, over SCTP put in its place, and over SCTP with a stream for each object','section 4; the network is ours',
  {**w,'loss':'["0", "2%"]','page':'["osterdahl-news", "osterdahl-gallery"]'},
  transports=['"tcp=tcp:profile=linux-2.6,connections=1,pipeline=yes"'.replace('tcp=','tcp-linux='),'"sctp-1=sctp:profile=lksctp-2.6,streams=1,when-full=rr"','"sctp-streams=sctp:profile=lksctp-2.6,streams=20"'],
  metric='page',unit='seconds until the page is there',runs=100,quick=40,rig=False)
table('today',"a page over today's stacks",'section 4; the network is ours',
  {**w,'loss':'["0", "1%", "3%"]','page':'["osterdahl-news", "osterdahl-gallery"]'},
  transports=['"tcp-today=tcp:profile=modern,connections=1,pipeline=yes"','"sctp-today=sctp:profile=modern"'],
  metric='page',unit='seconds until the page is there',runs=200,quick=40,rig=False)
table('faults','SCTP where packets are lost, arrive twice, or overtake others','section 2.3; the network is ours',
  {**w,'loss':'"2%"','duplicate':'"2%"','reorder':'"5%/10ms"','bulk':'"500kB"'},
  transports=['"sctp-linux=sctp:profile=lksctp-2.6"'],
  metric='page',unit='seconds until all is there',runs=100,quick=20,rig=False)
