/** The tables of the organisation: the largest as tabs, the others in a menu. */

import { Link, useNavigate } from '@tanstack/react-router';
import { Button } from '../components/ui/Button';
import { formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { Menu, MenuItem } from '../components/ui/Menu';
import styles from './Tables.module.css';

const TABS = 5;

interface Props {
  tables: readonly { schema_id: string; name: string; records: number }[];
  current: string;
}

export function TableTabs({ tables, current }: Props) {
  const navigate = useNavigate();
  const at = tables.findIndex(({ schema_id: id }) => id === current);
  // The current table is always a tab.
  const tabs = at >= TABS ? [...tables.slice(0, TABS - 1), tables[at]!] : tables.slice(0, TABS);
  const others = tables.filter((one) => !tabs.includes(one));
  return (
    <nav className={styles.tabs} aria-label={t('records.tables')}>
      {tabs.map(({ schema_id: schemaId, name, records }) => (
        <Link
          key={schemaId}
          to="/records/$schemaId"
          params={{ schemaId }}
          aria-current={schemaId === current ? 'page' : undefined}>
          <span className="truncate">{visibleText(name)}</span>{' '}
          <span className={styles.number}>{formatNumber(records)}</span>
        </Link>
      ))}
      {others.length > 0 && (
        <Menu
          align="start"
          trigger={
            <Button kind="quiet">
              {t('records.more', { count: others.length })} <Icon name="down" size={12} />
            </Button>
          }>
          {others.map(({ schema_id: schemaId, name, records }) => (
            <MenuItem key={schemaId} onChoose={() => void navigate({ to: '/records/$schemaId', params: { schemaId } })}>
              <span className="truncate">{visibleText(name)}</span>{' '}
              <span className={styles.number}>{formatNumber(records)}</span>
            </MenuItem>
          ))}
        </Menu>
      )}
    </nav>
  );
}
