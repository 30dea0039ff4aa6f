/** The actions of a row of the settings. The last one cannot be undone, and asks first. */

import { Ellipsis, type LucideIcon, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Button } from '../components/ui/Button';
import { ConfirmDialog } from '../components/ui/Confirm';
import { Menu, MenuItem, MenuSeparator } from '../components/ui/Menu';
import { t } from '../shared/i18n';

interface Props {
  /** What the row is about. */
  name: string;
  action: string;
  question: string;
  icon?: LucideIcon;
  onConfirm: () => void;
  /** The other actions, as `MenuItem`s. */
  children?: ReactNode;
}

export function RowMenu({ name, action, question, icon = Trash2, onConfirm, children }: Props) {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <Menu trigger={<Button kind="quiet" icon={Ellipsis} label={t('settings.actionsFor', { name })} />}>
        {children}
        {children !== undefined && <MenuSeparator />}
        <MenuItem icon={icon} danger onChoose={() => setAsking(true)}>
          {action}
        </MenuItem>
      </Menu>
      <ConfirmDialog
        label={action}
        question={question}
        open={isAsking}
        onClose={() => setAsking(false)}
        onConfirm={onConfirm}>
        <p className="break-all text-muted-foreground">{name}</p>
      </ConfirmDialog>
    </>
  );
}
