/** Each part in its variants. Its texts are for developers and in English only. */

import {
  Check,
  CircleDashed,
  CircleHelp,
  Download,
  Inbox,
  MoreHorizontal,
  Plus,
  Trash2,
  TriangleAlert,
} from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Avatar } from '../components/ui/Avatar';
import { Button } from '../components/ui/Button';
import { Card } from '../components/ui/Card';
import { Checkbox } from '../components/ui/Checkbox';
import { Command } from '../components/ui/Command';
import { Confirm } from '../components/ui/Confirm';
import { CountBadge } from '../components/ui/CountBadge';
import { Dialog } from '../components/ui/Dialog';
import { EmptyState } from '../components/ui/EmptyState';
import { Field } from '../components/ui/Field';
import { Input, TextArea } from '../components/ui/Input';
import { Kbd } from '../components/ui/Kbd';
import { Menu, MenuItem, MenuLabel, MenuSeparator, SubMenu } from '../components/ui/Menu';
import { Notice } from '../components/ui/Notice';
import { Popover } from '../components/ui/Popover';
import { Progress } from '../components/ui/Progress';
import { Select } from '../components/ui/Select';
import { Skeleton } from '../components/ui/Skeleton';
import { NeedDot, StatusPill } from '../components/ui/StatusPill';
import { Switch } from '../components/ui/Switch';
import { Table, Td, Th, Tr } from '../components/ui/Table';
import { TabPanel, Tabs } from '../components/ui/Tabs';
import { toast, Toasts } from '../components/ui/Toast';
import { TooltipLayer } from '../components/ui/Tooltip';

const OPTIONS = [
  { value: 'receipts', label: 'Receipts Nov' },
  { value: 'invoices', label: 'Invoices', hint: '412 rows' },
  { value: 'new', label: 'New table', icon: Plus },
];

export function Gallery() {
  const [open, setOpen] = useState<'dialog' | 'command' | null>(null);
  const [on, setOn] = useState(true);
  const [table, setTable] = useState('receipts');
  const [tab, setTab] = useState('rows');
  const [text, setText] = useState('');
  const close = () => setOpen(null);
  return (
    <main className="grid h-dvh grid-cols-[repeat(auto-fill,minmax(22rem,1fr))] content-start gap-4 overflow-auto bg-background p-6">
      <h1 className="sr-only">Parts</h1>
      <Card title="Button">
        <Row>
          <Button kind="main" icon={Check} keys="⌘↵">
            Mark as reviewed
          </Button>
          <Button icon={Download}>Export</Button>
          <Button kind="quiet">Filter</Button>
          <Button kind="quiet" icon={MoreHorizontal} label="More" keys="M" />
          <Button kind="quiet" danger icon={Trash2}>
            Delete
          </Button>
          <Button kind="main" disabled>
            Approve 11
          </Button>
          <Button disabled>Export</Button>
          <Button kind="main" size="md">
            In a sheet
          </Button>
          <Button kind="main" size="lg">
            On a phone
          </Button>
          <Confirm label="Delete table" question="Delete the table Invoices?" onConfirm={close} />
        </Row>
      </Card>
      <Card title="Field, Input, Select, Checkbox, Switch">
        <div className="grid gap-3">
          <Field label="Name" hint="The name in the sidebar.">
            <Input defaultValue="Invoices" />
          </Field>
          <Field label="Total" error="This is not a number: 12,x. Type 12.50.">
            <Input defaultValue="12,x" />
          </Field>
          <Field label="How to find it">
            <TextArea rows={2} placeholder="The last day to pay" />
          </Field>
          <Field label="Add to">
            <Select value={table} options={OPTIONS} onChange={setTable} />
          </Field>
          <Select kind="quiet" label="Table" value={table} options={OPTIONS} onChange={setTable} />
          <Field label="Required" layout="row">
            <Switch checked={on} onChange={setOn} />
          </Field>
          <Row>
            <Checkbox checked={on} onChange={setOn}>
              Only reviewed rows
            </Checkbox>
            <Checkbox checked={false} isPartial onChange={setOn} label="All rows" />
            <Checkbox checked={false} disabled onChange={setOn} label="Row 1" />
          </Row>
        </div>
      </Card>
      <Card title="StatusPill, Avatar, Kbd, CountBadge">
        <Row>
          <StatusPill tone="need" icon={CircleHelp}>
            Unclear
          </StatusPill>
          <StatusPill tone="need" icon={CircleDashed}>
            Missing
          </StatusPill>
          <StatusPill tone="ok" icon={Check}>
            Confirmed
          </StatusPill>
          <StatusPill tone="bad" icon={TriangleAlert}>
            Failed
          </StatusPill>
          <StatusPill>Receipts Nov</StatusPill>
          <StatusPill tone="accent">v5, draft</StatusPill>
          <StatusPill kind="text" tone="need" icon={CircleHelp}>
            1 to check
          </StatusPill>
          <NeedDot text="needs you" />
          <Avatar id="1" name="Jo Doyle" size={28} />
          <Avatar id="2" name="Bob Marsh" isAlone />
          <Avatar id="3" name="ines.falk@example.org" isAlone />
          <Kbd>⌘K</Kbd>
          <CountBadge count={1204} />
        </Row>
      </Card>
      <Card title="Tabs">
        <Tabs
          label="View"
          value={tab}
          onChange={setTab}
          tabs={[
            { value: 'rows', label: 'Rows', count: 412 },
            { value: 'quality', label: 'Quality' },
          ]}>
          <TabPanel value="rows">The rows</TabPanel>
          <TabPanel value="quality">The quality</TabPanel>
        </Tabs>
        <Tabs
          kind="segments"
          label="Period"
          value={tab}
          onChange={setTab}
          listClass="mt-4 w-fit"
          tabs={[
            { value: 'rows', label: 'Month' },
            { value: 'quality', label: 'Quarter' },
          ]}
        />
      </Card>
      <Card title="Menu, Popover, Dialog, Command, Toast">
        <Row>
          <Menu trigger={<Button>Menu</Button>} align="start">
            <MenuLabel>Total</MenuLabel>
            <MenuItem onChoose={close} icon={Check} hint="2" keys="R">
              Review this column
            </MenuItem>
            <SubMenu label="Filter">
              <MenuItem onChoose={close}>has no value</MenuItem>
            </SubMenu>
            <MenuSeparator />
            <MenuItem onChoose={close} chosen>
              Chosen
            </MenuItem>
            <MenuItem onChoose={close} chosen={false} disabled>
              Not possible
            </MenuItem>
            <MenuItem onChoose={close} icon={Trash2} danger>
              Delete
            </MenuItem>
          </Menu>
          <Popover trigger={<Button>Popover</Button>} title="Filter">
            <Input aria-label="Value" />
          </Popover>
          <Button onClick={() => setOpen('dialog')}>Dialog</Button>
          <Button onClick={() => setOpen('command')}>Command</Button>
          <Button onClick={() => toast('2 rows changed.', { action: { label: 'Undo', act: close } })}>Toast</Button>
        </Row>
        <Dialog title="Rename table" open={open === 'dialog'} onClose={close}>
          <Field label="Name">
            <Input defaultValue="Invoices" />
          </Field>
        </Dialog>
        <Command
          open={open === 'command'}
          onClose={close}
          label="Search or jump to"
          text={text}
          onText={setText}
          empty="Nothing found."
          groups={[
            {
              id: 'go',
              label: 'Go to',
              items: [{ id: 'inbox', sign: <Inbox size={16} />, label: 'Inbox', end: <Kbd>G I</Kbd>, act: close }],
            },
          ]}
        />
      </Card>
      <Card title="Table">
        <Table label="Fields">
          <thead>
            <tr>
              <Th>Label</Th>
              <Th className="text-right">Filled</Th>
            </tr>
          </thead>
          <tbody>
            <Tr aria-selected>
              <Td>Vendor</Td>
              <Td className="text-right">100 %</Td>
            </Tr>
            <Tr>
              <Td>Due</Td>
              <Td className="text-right">96 %</Td>
            </Tr>
          </tbody>
        </Table>
      </Card>
      <Card title="Progress, Skeleton, Notice">
        <div className="grid gap-3">
          <Progress label="Reading" value={57} max={60} />
          <Progress label="Waiting" value={null} />
          <Skeleton className="w-24" />
          <Notice kind="unsure">The limit of $50 is nearly reached.</Notice>
          <Notice kind="bad">The file has a password.</Notice>
        </div>
      </Card>
      <Card title="EmptyState">
        <EmptyState icon={Inbox} title="Nothing needs you" text="Values that are unclear or missing appear here.">
          <Button kind="main">Add documents</Button>
        </EmptyState>
      </Card>
      <Toasts />
      <TooltipLayer />
    </main>
  );
}

function Row({ children }: { children: ReactNode }) {
  return <div className="flex flex-wrap items-center gap-2">{children}</div>;
}
