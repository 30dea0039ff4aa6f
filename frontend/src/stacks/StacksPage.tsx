/** The list of stacks. */

import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { Stack } from '../api/types';
import { useCanWrite } from '../session/role';
import { Button } from '../components/ui/Button';
import { formatAge, formatDollars, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { Loading } from '../components/ui/Loading';
import { EmptyState } from '../components/ui/EmptyState';
import { ErrorNotice } from '../components/ui/Notice';
import { NewStackDialog } from './NewStackDialog';
import { ProgressBar, progressText } from './ProgressBar';
import { stacksQuery } from './stackQueries';
import styles from './Stacks.module.css';

export function StacksPage() {
  const listed = useInfiniteQuery(stacksQuery);
  const canWrite = useCanWrite();
  const [isCreating, setCreating] = useState(false);
  const stacks = listed.data?.pages.flatMap((page) => page.items) ?? [];
  const create = canWrite && (
    <Button kind="main" onClick={() => setCreating(true)}>
      <Icon name="plus" /> {t('stacks.new')}
    </Button>
  );
  return (
    <div className={styles.list}>
      <div className={styles.head}>
        <h1>{t('areas.stacks')}</h1>
        {stacks.length > 0 && create}
      </div>
      {listed.isError && <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />}
      {listed.isPending ? (
        <Loading />
      ) : stacks.length === 0 && listed.isSuccess ? (
        <EmptyState title={t('stacks.none')}>
          <p>{t('stacks.noneHint')}</p>
          {create}
        </EmptyState>
      ) : (
        <ul className={styles.cards} aria-label={t('areas.stacks')}>
          {stacks.map((stack) => (
            <StackCard key={stack.id} stack={stack} />
          ))}
        </ul>
      )}
      {listed.hasNextPage && (
        <Button disabled={listed.isFetchingNextPage} onClick={() => void listed.fetchNextPage()}>
          {t('stacks.older')}
        </Button>
      )}
      {isCreating && <NewStackDialog onClose={() => setCreating(false)} />}
    </div>
  );
}

function StackCard({ stack }: { stack: Stack }) {
  const { progress, columns } = stack;
  return (
    <li className={styles.card}>
      <div className={styles.title}>
        <Link to="/stacks/$stackId" params={{ stackId: stack.id }} className={`${styles.link} truncate`}>
          {visibleText(stack.name)}
        </Link>
        <span className="muted">{formatAge(stack.created_at)}</span>
      </div>
      <p className="muted truncate">
        {columns.length === 0 ? t('stacks.noColumns') : columns.map(({ name }) => visibleText(name)).join(' · ')}
      </p>
      <ProgressBar progress={progress} />
      <p className="muted">
        {[
          progressText(progress),
          progress.awaiting_approval > 0 && t('stacks.rowsWait', { count: progress.awaiting_approval }),
          progress.cost_usd !== null && progress.cost_usd > 0 && formatDollars(progress.cost_usd),
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
    </li>
  );
}
